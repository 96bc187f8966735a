package wiretap

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "conclave/wire/v1" // registers the messages
)

// The envelope of a message of a Connect stream: a byte of flags and the length.
const (
	envelopeHead = 5
	endOfStream  = 2 // the flag of the last message, which has the error
)

// envelopes reads the messages of one direction of a stream.
type envelopes struct{ rest []byte } // of a message that is not complete

// read returns what the messages have that end in data.
func (e *envelopes) read(data []byte, fields protoreflect.FieldDescriptors) (details []string) {
	e.rest = append(e.rest, data...)
	for len(e.rest) >= envelopeHead {
		end := envelopeHead + int(binary.BigEndian.Uint32(e.rest[1:]))
		if len(e.rest) < end {
			break
		}
		body := e.rest[envelopeHead:end]
		if e.rest[0]&endOfStream != 0 {
			details = append(details, endOf(body))
		} else {
			details = append(details, namesOf(body, fields)...)
		}
		e.rest = e.rest[end:]
	}
	return details
}

// endOf returns how a stream ended.
func endOf(body []byte) string {
	var end struct{ Error struct{ Code string } }
	if err := json.Unmarshal(body, &end); err != nil || end.Error.Code == "" {
		return "ended"
	}
	return "ended: " + end.Error.Code
}

// namesOf returns the names of the fields that a message has.
func namesOf(b []byte, fields protoreflect.FieldDescriptors) (names []string) {
	if fields == nil {
		return nil
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		if f := fields.ByNumber(number); f != nil {
			if name := strings.ReplaceAll(string(f.Name()), "_", " "); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			break
		}
		b = b[n:]
	}
	return names
}

// fieldsOf returns the fields of the messages of a procedure, of the client or of
// the server, or nil if the procedure is not known.
func fieldsOf(procedure string, client bool) protoreflect.FieldDescriptors {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(procedure, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	method, ok := d.(protoreflect.MethodDescriptor)
	switch {
	case err != nil || !ok:
		return nil
	case client:
		return method.Input().Fields()
	}
	return method.Output().Fields()
}
