package sofa

import (
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// Encode returns a value as a content, in the bytes that SOFA's library for Java writes.
func Encode(v any) []byte {
	e := &encoder{classes: map[*Class]int{}, types: map[string]int{}, begun: map[any]int{}}
	e.value(v)
	return e.out
}

type encoder struct {
	out     []byte
	classes map[*Class]int
	types   map[string]int
	begun   map[any]int // lists, maps and objects
}

// number appends the last n bytes of a number.
func (e *encoder) number(v int64, n int) {
	for n--; n >= 0; n-- {
		e.out = append(e.out, byte(v>>(8*n)))
	}
}

// coded appends a code and the last n bytes of a number.
func (e *encoder) coded(code byte, v int64, n int) {
	e.out = append(e.out, code)
	e.number(v, n)
}

func (e *encoder) value(v any) {
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, 'N')
	case bool:
		if v {
			e.out = append(e.out, 'T')
		} else {
			e.out = append(e.out, 'F')
		}
	case int32:
		e.int(int64(v))
	case int64:
		e.long(v)
	case float64:
		e.double(v)
	case Date:
		e.coded('d', int64(v), 8)
	case string:
		e.text(v)
	case []byte:
		e.bytes(v)
	case *List:
		if e.begin(v) {
			e.list(v)
		}
	case *Map:
		if e.begin(v) {
			e.mapping(v)
		}
	case *Object:
		if e.begin(v) {
			e.object(v)
		}
	}
}

// within reports whether a number has n bits at most, with its sign.
func within(v int64, n int) bool { return -1<<(n-1) <= v && v < 1<<(n-1) }

func (e *encoder) int(v int64) {
	switch {
	case -16 <= v && v < 48:
		e.number(0x90+v, 1)
	case within(v, 12):
		e.number(0xc800+v, 2)
	case within(v, 19):
		e.number(0xd40000+v, 3)
	default:
		e.coded('I', v, 4)
	}
}

func (e *encoder) long(v int64) {
	switch {
	case -8 <= v && v < 16:
		e.number(0xe0+v, 1)
	case within(v, 12):
		e.number(0xf800+v, 2)
	case within(v, 19):
		e.number(0x3c0000+v, 3)
	case within(v, 32):
		e.coded('w', v, 4)
	default:
		e.coded('L', v, 8)
	}
}

func (e *encoder) double(v float64) {
	switch n := int64(v); {
	case v == 0 || v == 1:
		e.out = append(e.out, 'g'+byte(n))
	case v == float64(n) && within(n, 8):
		e.coded('i', n, 1)
	case v == float64(n) && within(n, 16):
		e.coded('j', n, 2)
	case v == float64(float32(v)):
		e.coded('k', int64(math.Float32bits(float32(v))), 4)
	default:
		e.coded('D', int64(math.Float64bits(v)), 8)
	}
}

// chunk is how many UTF-16 units, or bytes, a chunk has at most.
const chunk = 1 << 15

// text appends a string. Its chunks do not divide a pair of surrogates.
func (e *encoder) text(s string) {
	units := utf16.Encode([]rune(s))
	for len(units) > chunk {
		n := chunk
		if utf16.IsSurrogate(rune(units[n-1])) && units[n-1] < 0xdc00 {
			n--
		}
		e.coded('s', int64(n), 2)
		e.units(units[:n])
		units = units[n:]
	}
	if len(units) < 0x20 {
		e.number(int64(len(units)), 1)
	} else {
		e.coded('S', int64(len(units)), 2)
	}
	e.units(units)
}

// units appends UTF-16 units, each encoded by itself.
func (e *encoder) units(units []uint16) {
	for _, u := range units {
		if utf16.IsSurrogate(rune(u)) {
			e.out = append(e.out, 0xe0|byte(u>>12), 0x80|byte(u>>6&0x3f), 0x80|byte(u&0x3f))
		} else {
			e.out = utf8.AppendRune(e.out, rune(u))
		}
	}
}

func (e *encoder) bytes(b []byte) {
	for ; len(b) > chunk; b = b[chunk:] {
		e.coded('b', chunk, 2)
		e.out = append(e.out, b[:chunk]...)
	}
	if len(b) < 0x10 {
		e.number(int64(0x20+len(b)), 1)
	} else {
		e.coded('B', int64(len(b)), 2)
	}
	e.out = append(e.out, b...)
}

// begin reports whether a list, map or object is written here. One that was begun before
// is only named.
func (e *encoder) begin(v any) bool {
	at, known := e.begun[v]
	switch {
	case !known:
		e.begun[v] = len(e.begun)
	case at < 1<<8:
		e.coded('J', int64(at), 1)
	case at < 1<<16:
		e.coded('K', int64(at), 2)
	default:
		e.coded('R', int64(at), 4)
	}
	return !known
}

// kind appends the type of a list or map the first time.
func (e *encoder) kind(name string) {
	if name != "" {
		e.types[name] = len(e.types)
		e.coded('t', int64(len(name)), 2)
		e.out = append(e.out, name...)
	}
}

func (e *encoder) list(l *List) {
	n := int64(len(l.Values))
	if at, known := e.types[l.Type]; known {
		e.out = append(e.out, 'v')
		e.int(int64(at))
		e.int(n)
		for _, v := range l.Values {
			e.value(v)
		}
		return
	}
	e.out = append(e.out, 'V')
	if e.kind(l.Type); n < 1<<8 {
		e.coded('n', n, 1)
	} else {
		e.coded('l', n, 4)
	}
	for _, v := range l.Values {
		e.value(v)
	}
	e.out = append(e.out, 'z')
}

func (e *encoder) mapping(m *Map) {
	e.out = append(e.out, 'M')
	if at, known := e.types[m.Type]; known {
		e.out = append(e.out, 'u')
		e.int(int64(at))
	} else {
		e.kind(m.Type)
	}
	for i, k := range m.Keys {
		e.value(k)
		e.value(m.Values[i])
	}
	e.out = append(e.out, 'z')
}

func (e *encoder) object(o *Object) {
	at, known := e.classes[o.Class]
	if !known {
		at = len(e.classes)
		e.classes[o.Class] = at
		e.out = append(e.out, 'O')
		e.int(int64(len(o.Class.Name)))
		e.out = append(e.out, o.Class.Name...)
		e.int(int64(len(o.Class.Fields)))
		for _, f := range o.Class.Fields {
			e.text(f)
		}
	}
	e.out = append(e.out, 'o')
	e.int(int64(at))
	for _, v := range o.Values {
		e.value(v)
	}
}
