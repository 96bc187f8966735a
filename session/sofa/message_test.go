package sofa

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vectors are frames of the published clients and servers, as they were captured, by the
// name of the file.
func vectors(t testing.TB) map[string][]byte {
	files, err := filepath.Glob("testdata/*.hex")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, digits, _ := strings.Cut(string(text), "\n")
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		require.NoError(t, err)
		out[strings.TrimSuffix(filepath.Base(file), ".hex")] = b
	}
	return out
}

func read(t testing.TB, b []byte) Frame {
	f, err := ReadFrame(bytes.NewReader(b))
	require.NoError(t, err)
	return f
}

func TestVectors_AreWrittenAsTheyWereRead(t *testing.T) {
	for name, b := range vectors(t) {
		f := read(t, b)
		assert.Equal(t, b, f.Append(nil), name)
		if len(f.Content) == 0 {
			continue
		}
		v, err := Decode(f.Content)
		require.NoError(t, err, name)
		assert.Equal(t, f.Content, Encode(v), name)
	}
}

// Each line of the table has one or two values as SOFA's library for Java has written
// them.
func TestValues_AreThoseOfJava(t *testing.T) {
	table, err := os.ReadFile("testdata/hessian-values.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		name, digits, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		b, err := hex.DecodeString(digits)
		require.NoError(t, err)
		d, e := &decoder{in: b}, &encoder{classes: map[*Class]int{}, types: map[string]int{}, begun: map[any]int{}}
		for len(d.in) > 0 {
			e.value(d.value())
		}
		require.NoError(t, d.err, name)
		assert.Equal(t, b, e.out, name)
		if kind, digits, _ := strings.Cut(name, " "); kind == "int" || kind == "long" {
			v, err := Decode(b)
			require.NoError(t, err)
			assert.Equal(t, digits, fmt.Sprint(v), name)
		}
	}
}

func TestParseMessage_HasTheFieldsOfEachClient(t *testing.T) {
	all := vectors(t)
	parse := func(name string) any {
		m, err := ParseMessage(read(t, all[name]))
		require.NoError(t, err, name)
		return m
	}
	java := parse("01-java-publisher-register").(Register)
	assert.Equal(t, "AK1", java.Attributes["!AccessKey"])
	java.Attributes = nil
	assert.Equal(t, Register{
		Kind: Publisher, ID: "8f8fe7f1-7ef9-4c8f-9a30-b54830023d92", DataID: "vec.0", Group: "DEFAULT_GROUP", Zone: DefaultZone, App: "realclients",
		Version: 1, Values: []string{"java0|vec.0|0|v1|é中"},
	}, java)
	assert.True(t, parse("12-java-publisher-unregister").(Register).Withdrawn)
	assert.Equal(t, "dataCenter", parse("03-java-subscriber-register").(Register).Scope)
	assert.Equal(t, "session.push.switch", parse("07-java-configurator-register").(Register).DataID)
	node := parse("17-node-publisher-register").(Register)
	assert.Equal(t, []string{"node0|vecn.0|0|v1|é中🚀"}, node.Values)
	assert.Len(t, []rune(parse("19-java-publisher-chunked").(Register).Values[0]), 32999)
	assert.Equal(t, Result{true}, parse("18-node-result"))
	assert.Equal(t, SyncConfig{}, parse("14-java-sync-config-request"))
	_, err := ParseMessage(read(t, all["05-received-data"]))
	assert.ErrorIs(t, err, errUnknownClass)
}

func TestMessages_AreThoseOfTheOriginal(t *testing.T) {
	all := vectors(t)
	same := func(name string, o *Object) {
		assert.Equal(t, read(t, all[name]).Content, Encode(o), name)
	}
	same("02-register-response-publisher", answer("8f8fe7f1-7ef9-4c8f-9a30-b54830023d92", 1, true, false, "Publisher register success!"))
	same("15-sync-config-response", settings())
	to := Register{ID: "5a50aaac-49ea-4312-a2a3-e9e21ff17224", DataID: "vec.0", Group: "DEFAULT_GROUP", Instance: "DEFAULT_INSTANCE_ID", Zone: DefaultZone, Scope: "dataCenter"}
	same("05-received-data", push(to, []string{to.ID}, 0x1cfb8794a68001, map[string][]string{DefaultZone: {"java0|vec.0|0|v1|é中"}}))
	to.ID, to.DataID = "7484eacb-76b4-4c00-8d9f-a9563c078c31", "session.push.switch"
	same("09-received-config-data", configure(to, 0x1cfb8796248000, "", false))
}

func TestValue_KeepsTheZone(t *testing.T) {
	assert.Equal(t, "bolt://10.0.0.1:12200", Value("bolt://10.0.0.1:12200", DefaultZone))
	assert.Equal(t, `10.0.0.1 {"zone":"RZ1"}`, Value("10.0.0.1", "RZ1"))
	for _, data := range []string{"", "a", `a {"zone":"RZ2"}`, `a "}`, ` {"zone":""}`, `{"zone":"x"}`} {
		for _, zone := range []string{DefaultZone, "RZ1"} {
			gotData, gotZone := ZoneOf(Value(data, zone))
			assert.Equal(t, []string{data, zone}, []string{gotData, gotZone})
		}
	}
	data, zone := ZoneOf(`10.0.0.1:80 {"id":"web"}`)
	assert.Equal(t, []string{`10.0.0.1:80 {"id":"web"}`, DefaultZone}, []string{data, zone}, "a value of another client")
}

func TestDecode_RefusesWhatIsTooMuch(t *testing.T) {
	deep := append(bytes.Repeat([]byte("V"), maxDepth+1), bytes.Repeat([]byte("z"), maxDepth+1)...)
	many := append(append([]byte("V"), bytes.Repeat([]byte("N"), maxValues)...), 'z')
	for name, content := range map[string][]byte{
		"depth": deep, "number": many, "a long list": {'V', 'l', 0xff, 0xff, 0xff, 0xff, 'N'}, "a long string": {'S', 0xff, 0xff, 'a'},
		"a long class": {'O', 'I', 0x7f, 0xff, 0xff, 0xff, 'a'}, "no class": {'o', 0x90}, "no reference": {'J', 0}, "no UTF-8": {1, 0xff},
		"nothing": {}, "no code": {'@'}, "a rest": {'N', 'N'}, "no type": {'V', 'u', 0x90, 'z'}, "a fixed list of any type": {'v', 0x90, 0x90},
	} {
		_, err := Decode(content)
		assert.Error(t, err, name)
	}
	half, err := Decode([]byte{2, 'a', 0xed, 0xa0, 0xbd})
	require.NoError(t, err)
	assert.Equal(t, "a\ufffd", half)
	whole, err := Decode([]byte{3, 'a', 0xf0, 0x9f, 0x9a, 0x80})
	require.NoError(t, err)
	assert.Equal(t, "a🚀", whole, "other writers encode a pair as one character")
}

func TestReadFrame_RefusesWhatIsTooMuch(t *testing.T) {
	good := vectors(t)["10-heartbeat"]
	with := func(at int, bytes ...byte) []byte {
		b := append([]byte{}, good...)
		copy(b[at:], bytes)
		return b
	}
	for name, b := range map[string][]byte{
		"protocol": with(0, 2), "type": with(1, 3), "class": with(14, 0xff, 0xff), "header": with(16, 0x80, 0), "content": with(18, 0, 0x40, 0, 1), "less than nothing": with(18, 0xff, 0xff, 0xff, 0xff),
		"an end in the head": good[:21], "an end in the rest": with(18, 0, 0, 0, 1),
	} {
		_, err := ReadFrame(bytes.NewReader(b))
		assert.Error(t, err, name)
	}
}

func FuzzFrame(f *testing.F) {
	for _, b := range vectors(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := ReadFrame(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := ReadFrame(bytes.NewReader(frame.Append(nil)))
		require.NoError(t, err)
		assert.Equal(t, frame, again)
	})
}

// FuzzValue checks that what was read is written, and read again, the same.
func FuzzValue(f *testing.F) {
	for _, b := range vectors(f) {
		if content := read(f, b).Content; len(content) > 0 {
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Decode(b)
		if err != nil {
			return
		}
		out := Encode(v)
		again, err := Decode(out)
		require.NoError(t, err)
		assert.Equal(t, out, Encode(again))
	})
}

// FuzzMessage checks that no content of any class does more than fail.
func FuzzMessage(f *testing.F) {
	classes := []string{model + string(Publisher), model + string(Subscriber), model + string(Configurator), model + "Result", model + "SyncConfigRequest"}
	for _, b := range vectors(f) {
		frame := read(f, b)
		for i, class := range classes {
			if frame.Class == class {
				f.Add(uint8(i), frame.Content)
			}
		}
	}
	f.Fuzz(func(t *testing.T, class uint8, content []byte) {
		frame := Frame{Codec: hessian, Class: classes[int(class)%len(classes)], Content: content}
		m, err := ParseMessage(frame)
		if r, ok := m.(Register); ok && err == nil {
			for _, v := range r.Values {
				data, zone := ZoneOf(Value(v, "RZ1"))
				assert.Equal(t, []string{v, "RZ1"}, []string{data, zone})
			}
		}
	})
}
