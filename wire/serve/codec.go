package serve

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A message of a few bytes can stand for structures of many: an empty
// registration takes two bytes on the wire and two hundred in memory. What
// clients send is therefore counted before it is unmarshalled, and is never
// decompressed.
const (
	// maxFields is how many fields one message of a client may have, those of
	// the messages in it included. The SDK sends several times fewer, unless an
	// application closes tens of thousands of subscriptions at once.
	maxFields = 64 << 10
	// Of the messages in a message there is one for each leastMessage bytes at most, and
	// some more: those that make sense have more.
	leastMessage = 16
	someMessages = 64
	// maxJSON is the size of a message as JSON, in which fields are not counted.
	maxJSON = 16 << 10
)

// clientCodec unmarshals the binary messages of clients within their limits.
type clientCodec struct{}

var _ connect.Codec = clientCodec{}

// Name implements connect.Codec.
func (clientCodec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (clientCodec) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

// MarshalAppend is what connect uses instead of Marshal if a codec has it.
func (clientCodec) MarshalAppend(b []byte, m any) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m.(proto.Message))
}

// Unmarshal implements connect.Codec.
func (clientCodec) Unmarshal(b []byte, m any) error {
	message := m.(proto.Message)
	count := fieldCount{fields: maxFields, messages: someMessages + len(b)/leastMessage}
	if err := count.take(b, message.ProtoReflect().Descriptor()); err != nil {
		return err
	}
	return proto.Unmarshal(b, message)
}

// clientJSON is the codec of calls as JSON, with curl for example.
type clientJSON struct{}

var _ connect.Codec = clientJSON{}

// Name implements connect.Codec.
func (clientJSON) Name() string { return "json" }

// Marshal implements connect.Codec. What a session has encoded once for several
// receivers is in the message as fields that it does not know, which JSON would
// leave out.
func (clientJSON) Marshal(m any) ([]byte, error) {
	message := m.(proto.Message)
	b, err := proto.Marshal(message)
	if err != nil {
		return nil, err
	}
	whole := message.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, whole); err != nil {
		return nil, err
	}
	return protojson.Marshal(whole)
}

// Unmarshal implements connect.Codec.
func (clientJSON) Unmarshal(b []byte, m any) error {
	if len(b) > maxJSON {
		return fmt.Errorf("the message has %d bytes, as JSON the limit is %d", len(b), maxJSON)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, m.(proto.Message))
}

// fieldCount is how many fields and messages a message may still have.
type fieldCount struct{ fields, messages int }

// take takes those in b off, and returns an error if there are too many.
func (c *fieldCount) take(b []byte, d protoreflect.MessageDescriptor) error {
	for len(b) > 0 {
		if c.fields--; c.fields < 0 {
			return fmt.Errorf("the message has more than %d fields", maxFields)
		}
		number, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, b[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		value := b[tag : tag+size]
		b = b[tag+size:]
		if f := d.Fields().ByNumber(number); kind == protowire.BytesType && f != nil && f.Message() != nil {
			if c.messages--; c.messages < 0 {
				return fmt.Errorf("the message has more than one message in each %d bytes", leastMessage)
			}
			inner, _ := protowire.ConsumeBytes(value)
			if err := c.take(inner, f.Message()); err != nil {
				return err
			}
		}
	}
	return nil
}
