package wiretap

import (
	"bytes"
	"encoding/binary"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"conclave/testbed/console/journal"
)

// calls are the streams of one connection. Both directions know them.
type calls struct {
	streams map[uint32]*call
	plain   string // HTTP/1: the request that was sent last
}

// call is one call or stream.
type call struct {
	name      string
	procedure string       // its path
	stream    bool         // its messages have envelopes
	messages  [2]envelopes // of the client and of the server
	ended     [2]bool
}

// httpReader reads one direction of a connection over HTTP/2 or, if it begins
// otherwise, HTTP/1.
type httpReader struct {
	client  bool
	calls   *calls
	preface int  // bytes of the preface that have not arrived
	plain   bool // HTTP/1
	begun   bool // the protocol is known, by the first four bytes

	headers *hpack.Decoder
	add     func(Message) // of the write that is being read
	fields  struct{ path, contentType, status string }

	rest  []byte // of a frame that is not complete
	frame http2.FrameHeader
}

func newHTTPReader(client bool, shared *calls) *httpReader {
	r := &httpReader{client: client, calls: shared}
	if client {
		r.preface = len(http2.ClientPreface)
	}
	r.headers = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		switch f.Name {
		case ":path":
			r.fields.path = f.Value
		case "content-type":
			r.fields.contentType = f.Value
		case ":status":
			r.fields.status = f.Value
		}
	})
	return r
}

const frameHead = 9

func (r *httpReader) read(data []byte, add func(Message)) {
	data = append(r.rest, data...)
	if r.rest = data; !r.begun {
		if len(data) < len("HTTP") {
			return
		}
		r.begun = true
		r.plain = r.client && !bytes.HasPrefix(data, []byte("PRI ")) || !r.client && bytes.HasPrefix(data, []byte("HTTP"))
	}
	if r.plain {
		r.rest = nil
		r.readPlain(data, add)
		return
	}
	skip := min(r.preface, len(data))
	r.preface -= skip
	data = data[skip:]
	r.add = add
	for len(data) >= frameHead {
		h := data[:frameHead]
		length := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		if len(data) < frameHead+length {
			break
		}
		r.frame = http2.FrameHeader{Length: uint32(length), Type: http2.FrameType(h[3]), Flags: http2.Flags(h[4]), StreamID: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1)}
		r.take(data[frameHead : frameHead+length])
		data = data[frameHead+length:]
	}
	r.rest = data
}

// take reads a frame.
func (r *httpReader) take(payload []byte) {
	size := frameHead + len(payload)
	switch r.frame.Type {
	case http2.FrameData:
		r.data(payload)
		if r.frame.Flags.Has(http2.FlagDataEndStream) {
			r.ends(r.frame.StreamID)
		}
	case http2.FrameHeaders, http2.FrameContinuation:
		r.takeHeaders(payload, size)
	case http2.FrameRSTStream:
		if c := r.calls.streams[r.frame.StreamID]; c != nil {
			r.say(c, size, "cancelled")
			delete(r.calls.streams, r.frame.StreamID)
		}
	case http2.FrameSettings:
		r.transport(size, "settings")
	case http2.FramePing:
		r.transport(size, "ping")
	case http2.FrameGoAway:
		r.transport(size, "no more calls")
	default:
		r.transport(size, "window")
	}
}

// takeHeaders reads headers that are complete, or a part of them.
func (r *httpReader) takeHeaders(block []byte, size int) {
	if r.frame.Type == http2.FrameHeaders {
		r.fields.path, r.fields.contentType, r.fields.status = "", "", ""
		if r.frame.Flags.Has(http2.FlagHeadersPadded) && len(block) > 0 {
			pad := int(block[0])
			block = block[1:max(1, len(block)-pad)]
		}
		if r.frame.Flags.Has(http2.FlagHeadersPriority) {
			block = block[min(5, len(block)):]
		}
	}
	if _, err := r.headers.Write(block); err != nil {
		return // from now on nothing of this direction can be named
	}
	if !r.frame.Flags.Has(http2.FlagHeadersEndHeaders) {
		return
	}
	_ = r.headers.Close()
	id := r.frame.StreamID
	c := r.calls.streams[id]
	switch {
	case r.client && c == nil:
		name := r.fields.path[strings.LastIndex(r.fields.path, "/")+1:]
		c = &call{name: name, procedure: r.fields.path, stream: strings.HasPrefix(r.fields.contentType, "application/connect")}
		r.calls.streams[id] = c
		r.say(c, size, "")
	case c == nil:
	case !r.client && r.fields.status != "" && r.fields.status != "200":
		r.say(c, size, "HTTP "+r.fields.status)
	default:
		r.say(c, size, "")
	}
	if r.frame.Flags.Has(http2.FlagHeadersEndStream) {
		r.ends(id)
	}
}

// data reads bytes of a call's data.
func (r *httpReader) data(data []byte) {
	c := r.calls.streams[r.frame.StreamID]
	if c == nil {
		return
	}
	if !c.stream {
		r.say(c, len(data), "")
		return
	}
	r.say(c, len(data), c.messages[r.side()].read(data, fieldsOf(c.procedure, r.client))...)
}

// side is the index of what this end has sent in a call.
func (r *httpReader) side() int {
	if r.client {
		return 0
	}
	return 1
}

// ends notes that this end sends nothing more on a stream.
func (r *httpReader) ends(id uint32) {
	c := r.calls.streams[id]
	if c == nil {
		return
	}
	if c.ended[r.side()] = true; c.ended[0] && c.ended[1] {
		delete(r.calls.streams, id)
	}
}

// say adds to the message of a call in this write.
func (r *httpReader) say(c *call, size int, details ...string) {
	kind := journal.Answer
	if r.client {
		kind = journal.Request
	}
	m := Message{Stream: r.frame.StreamID, Kind: kind, Call: c.name, Bytes: size}
	for _, d := range details {
		m.add(d)
	}
	r.add(m)
}

func (r *httpReader) transport(size int, what string) {
	r.add(Message{Kind: journal.Transport, Call: "HTTP/2", Details: []string{what}, Bytes: size})
}

// readPlain reads HTTP/1: a write that begins with a request or with a status is
// named by it, and others by the request.
func (r *httpReader) readPlain(data []byte, add func(Message)) {
	line, _, _ := bytes.Cut(data, []byte("\r\n"))
	words := strings.Fields(string(line[:min(len(line), 200)]))
	m := Message{Kind: journal.Answer, Bytes: len(data)}
	switch {
	case r.client:
		m.Kind = journal.Request
		if len(words) == 3 && strings.HasPrefix(words[2], "HTTP/1") {
			r.calls.plain = words[0] + " " + words[1]
		}
	case len(words) > 1 && strings.HasPrefix(words[0], "HTTP/1") && words[1] != "200":
		m.Details = []string{"HTTP " + words[1]}
	}
	m.Call = r.calls.plain
	add(m)
}
