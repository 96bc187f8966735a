package sofa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Type is the type of a frame.
type Type byte

// The types.
const (
	Response Type = iota
	Request
	OneWay // a request that is not answered
)

// The commands of frames.
const (
	heartbeat uint16 = iota
	request
	response
)

// Status is what became of a request.
type Status uint16

// The statuses that this package sends.
const (
	statusOK         Status = 0
	statusException  Status = 2    // the class is unknown
	statusUnreadable Status = 0x12 // the content is no value of its class
)

// hessian is the codec of all contents.
const hessian = 1

// MaxContent limits the content of a frame: what a client of this cluster may send in one
// request.
const MaxContent = 4 << 20

// Frame is one frame, in either direction. The two sides number their requests
// independently.
type Frame struct {
	Type    Type
	Command uint16
	ID      uint32 // of the request, also in its response
	Codec   byte
	Timeout int32  // of a request, in milliseconds
	Status  Status // of a response
	Class   string
	Header  []byte
	Content []byte
}

// readStep is how much memory is taken at first for the rest of a frame. Then it is as much
// as has arrived.
const readStep = 16 << 10

// ReadFrame reads a frame. After an error the connection is of no use any more; io.EOF
// means that it ended between two frames.
func ReadFrame(r io.Reader) (f Frame, err error) {
	fixed := make([]byte, 22) // of a request; that of a response has two bytes less
	head := fixed[:20]
	if _, err := io.ReadFull(r, head); err != nil {
		return f, err
	}
	f.Type, f.Command, f.ID, f.Codec = Type(head[1]), binary.BigEndian.Uint16(head[2:]), binary.BigEndian.Uint32(head[5:]), head[9]
	if head[0] != 1 || f.Type > OneWay {
		return f, fmt.Errorf("a frame begins with %#x %#x: want Bolt of version 1, and a known type", head[0], head[1])
	}
	if f.Type == Response {
		f.Status = Status(binary.BigEndian.Uint16(head[10:]))
	} else {
		if _, err := io.ReadFull(r, fixed[len(head):]); err != nil {
			return f, unexpected(err)
		}
		head = fixed
		f.Timeout = int32(binary.BigEndian.Uint32(head[10:]))
	}
	lengths := head[len(head)-8:]
	class, header, content := int(int16(binary.BigEndian.Uint16(lengths))), int(int16(binary.BigEndian.Uint16(lengths[2:]))), int(int32(binary.BigEndian.Uint32(lengths[4:])))
	if min(class, header, content) < 0 || content > MaxContent {
		return f, fmt.Errorf("a frame has a class of %d bytes, a header of %d and a content of %d: want at most %d", class, header, content, MaxContent)
	}
	var b []byte
	for all := class + header + content; len(b) < all; {
		at := len(b)
		n := min(all-at, max(readStep, at))
		b = slices.Grow(b, n)[:at+n]
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			return f, unexpected(err)
		}
	}
	f.Class, f.Header, f.Content = string(b[:class]), b[class:class+header], b[class+header:]
	return f, nil
}

// unexpected returns the error of a connection that ended within a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Append appends the frame as it is sent.
func (f Frame) Append(b []byte) []byte {
	order := binary.BigEndian
	b = order.AppendUint16(append(b, 1, byte(f.Type)), f.Command)
	b = append(order.AppendUint32(append(b, 1), f.ID), f.Codec)
	if f.Type == Response {
		b = order.AppendUint16(b, uint16(f.Status))
	} else {
		b = order.AppendUint32(b, uint32(f.Timeout))
	}
	b = order.AppendUint16(order.AppendUint16(b, uint16(len(f.Class))), uint16(len(f.Header)))
	b = order.AppendUint32(b, uint32(len(f.Content)))
	return append(append(append(b, f.Class...), f.Header...), f.Content...)
}
