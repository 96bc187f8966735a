package sofa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// A value is nil, a bool, int32, int64, float64, Date, string or []byte, or a pointer to a
// List, a Map or an Object. Two values may share such a pointer, also in a circle, so code
// that walks a value must not follow it to its end.
type (
	// Date is a time in milliseconds since 1970.
	Date int64
	// List is a list. Its Type is a Java class, "" for any.
	List struct {
		Type   string
		Values []any
	}
	// Map is a map, in the order in which it was written.
	Map struct {
		Type         string
		Keys, Values []any
	}
	// Object has one value for each field of its class.
	Object struct {
		Class  *Class
		Values []any
	}
	// Class is a class of objects, with its fields in the order of their writer.
	Class struct {
		Name   string
		Fields []string
	}
)

// Limits of one content: of values within others, and of values in all. A message with as
// many bytes as a frame may have is within them, if its strings are not all tiny.
const (
	maxDepth  = 64
	maxValues = 1 << 18
)

// Decode returns the value that a content consists of. A string that is no valid text, as
// half of a surrogate pair is not, has U+FFFD in that place.
func Decode(content []byte) (any, error) {
	d := &decoder{in: content}
	v := d.value()
	if d.err == nil && len(d.in) > 0 {
		d.fail("%d bytes follow the value", len(d.in))
	}
	if d.err != nil {
		return nil, d.err
	}
	return v, nil
}

// decoder reads values. After the first error each read returns a zero value.
type decoder struct {
	in            []byte // the rest
	err           error
	depth, values int
	classes       []*Class
	types         []string
	begun         []any // lists, maps and objects, in the order in which they began
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.in = nil
}

var errShort = errors.New("the content ends within a value")

// next returns the next n bytes, or none.
func (d *decoder) next(n int) []byte {
	if n < 0 || n > len(d.in) {
		d.fail("%w", errShort)
		return nil
	}
	b := d.in[:n]
	d.in = d.in[n:]
	return b
}

// number returns the big-endian number in the next n bytes.
func (d *decoder) number(n int) uint64 {
	var b [8]byte
	copy(b[8-n:], d.next(n))
	return binary.BigEndian.Uint64(b[:])
}

// is reports whether the next byte is this one, which it then skips.
func (d *decoder) is(code byte) bool {
	found := len(d.in) > 0 && d.in[0] == code
	if found {
		d.in = d.in[1:]
	}
	return found
}

// compact returns the number of a code and the n bytes after it, of codes around zero.
func (d *decoder) compact(code, zero byte, n int) int64 {
	return (int64(code)-int64(zero))<<(8*n) + int64(d.number(n))
}

// value reads a value.
func (d *decoder) value() any {
	d.values++
	if d.depth++; d.depth > maxDepth || d.values > maxValues {
		d.fail("the content has more than %d values, or %d within each other", maxValues, maxDepth)
	}
	defer func() { d.depth-- }()
	switch c := byte(d.number(1)); {
	case d.err != nil || c == 'N':
		return nil
	case c == 'T', c == 'F':
		return c == 'T'
	case c >= 0xf0:
		return d.compact(c, 0xf8, 1)
	case c >= 0xd8:
		return d.compact(c, 0xe0, 0)
	case c >= 0xd0:
		return int32(d.compact(c, 0xd4, 2))
	case c >= 0xc0:
		return int32(d.compact(c, 0xc8, 1))
	case c >= 0x80:
		return int32(d.compact(c, 0x90, 0))
	case c == 'I':
		return int32(d.number(4))
	case c >= 0x38 && c <= 0x3f:
		return d.compact(c, 0x3c, 2)
	case c == 'w':
		return int64(int32(d.number(4)))
	case c == 'L':
		return int64(d.number(8))
	case c == 'g', c == 'h':
		return float64(c - 'g')
	case c == 'i':
		return float64(int8(d.number(1)))
	case c == 'j':
		return float64(int16(d.number(2)))
	case c == 'k':
		return float64(math.Float32frombits(uint32(d.number(4))))
	case c == 'D':
		return math.Float64frombits(d.number(8))
	case c == 'd':
		return Date(d.number(8))
	case c < 0x20, c == 'S', c == 's':
		return d.text(c)
	case c >= 0x20 && c < 0x30, c == 'B', c == 'b':
		return d.bytes(c)
	case c == 'V', c == 'v':
		return d.list(c)
	case c == 'M':
		return d.mapping()
	case c == 'O':
		d.class()
		return d.value()
	case c == 'o':
		return d.object()
	case c == 'J':
		return d.back(d.number(1))
	case c == 'K':
		return d.back(d.number(2))
	case c == 'R':
		return d.back(d.number(4))
	default:
		d.fail("code %#x begins no value", c)
		return nil
	}
}

// text reads the rest of a string: chunks of UTF-16 units, each of which was encoded by
// itself.
func (d *decoder) text(c byte) string {
	var units []uint16
	for {
		n := int(c)
		if c >= 0x20 {
			n = int(d.number(2))
		}
		for end := len(units) + n; len(units) < end && d.err == nil; {
			units = d.unit(units)
		}
		if c != 's' || d.err != nil {
			return string(utf16.Decode(units))
		}
		if c = byte(d.number(1)); c >= 0x20 && c != 'S' && c != 's' {
			d.fail("code %#x continues no string", c)
		}
	}
}

// unit reads a UTF-16 unit, or a pair of them that was encoded as one character.
func (d *decoder) unit(units []uint16) []uint16 {
	switch c := uint16(d.number(1)); {
	case c < 0x80:
		return append(units, c)
	case c&0xe0 == 0xc0:
		return append(units, c&0x1f<<6|d.rest())
	case c&0xf0 == 0xe0:
		return append(units, c&0xf<<12|d.rest()<<6|d.rest())
	case c&0xf8 == 0xf0:
		r := rune(c&7)<<18 | rune(d.rest())<<12 | rune(d.rest())<<6 | rune(d.rest())
		if r >= 0x10000 && r <= utf8.MaxRune {
			return utf16.AppendRune(units, r)
		}
	}
	d.fail("a string has bytes that are no UTF-8")
	return units
}

// rest reads a byte that continues a character.
func (d *decoder) rest() uint16 {
	c := uint16(d.number(1))
	if c&0xc0 != 0x80 {
		d.fail("a string has bytes that are no UTF-8")
	}
	return c & 0x3f
}

func (d *decoder) bytes(c byte) []byte {
	out := []byte{}
	for {
		n := int(c) - 0x20
		if c >= 0x30 {
			n = int(d.number(2))
		}
		out = append(out, d.next(n)...)
		if c != 'b' || d.err != nil {
			return out
		}
		if c = byte(d.number(1)); (c < 0x20 || c >= 0x30) && c != 'B' && c != 'b' {
			d.fail("code %#x continues no bytes", c)
		}
	}
}

// integer reads a value that must be an int that is not negative.
func (d *decoder) integer() int {
	n, ok := d.value().(int32)
	if !ok || n < 0 {
		d.fail("a number is missing")
		return 0
	}
	return int(n)
}

// item returns an element of a table of this content.
func item[T any](d *decoder, table []T, at int) (out T) {
	if at >= len(table) {
		d.fail("number %d: there are %d", at, len(table))
		return out
	}
	return table[at]
}

// kind reads the type of a list or map, "" if it has none.
func (d *decoder) kind() string {
	switch {
	case d.is('t'):
		name := string(d.next(int(d.number(2))))
		d.types = append(d.types, name)
		return name
	case d.is('u'):
		return item(d, d.types, d.integer())
	}
	return ""
}

func (d *decoder) list(c byte) any {
	l, n := &List{}, -1 // the number of values, if it is known
	d.begun = append(d.begun, l)
	if c == 'v' {
		l.Type = item(d, d.types, d.integer())
		n = d.integer()
	} else {
		l.Type = d.kind()
		switch {
		case d.is('n'):
			n = int(d.number(1))
		case d.is('l'):
			n = int(d.number(4))
		}
	}
	for d.err == nil && (n < 0 || len(l.Values) < n) && !(n < 0 && d.is('z')) {
		l.Values = append(l.Values, d.value())
	}
	if c == 'V' && n >= 0 && !d.is('z') {
		d.fail("a list has more values than its length")
	}
	return l
}

func (d *decoder) mapping() any {
	m := &Map{}
	d.begun = append(d.begun, m)
	m.Type = d.kind()
	for d.err == nil && !d.is('z') {
		m.Keys = append(m.Keys, d.value())
		m.Values = append(m.Values, d.value())
	}
	return m
}

// class reads the definition of a class.
func (d *decoder) class() {
	c := &Class{Name: string(d.next(d.integer()))}
	for n := d.integer(); len(c.Fields) < n && d.err == nil; {
		name, ok := d.value().(string)
		if !ok {
			d.fail("a field of class %.100q has no name", c.Name)
		}
		c.Fields = append(c.Fields, name)
	}
	d.classes = append(d.classes, c)
}

func (d *decoder) object() any {
	o := &Object{}
	d.begun = append(d.begun, o)
	if o.Class = item(d, d.classes, d.integer()); d.err != nil {
		return nil
	}
	for len(o.Values) < len(o.Class.Fields) && d.err == nil {
		o.Values = append(o.Values, d.value())
	}
	return o
}

func (d *decoder) back(at uint64) any { return item(d, d.begun, int(at)) }
