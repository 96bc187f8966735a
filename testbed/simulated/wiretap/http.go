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

	head    []byte // of a frame whose head is not complete
	frame   http2.FrameHeader
	payload []byte // of a frame of headers that is not complete
	left    int    // bytes of the frame's payload that have not arrived
	within  bool   // a frame whose head is complete
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
	if !r.begun {
		r.head = append(r.head, data...)
		if len(r.head) < len("HTTP") {
			return
		}
		data, r.head, r.begun = r.head, nil, true
		r.plain = r.client && !bytes.HasPrefix(data, []byte("PRI ")) || !r.client && bytes.HasPrefix(data, []byte("HTTP"))
	}
	if r.plain {
		r.readPlain(data, add)
		return
	}
	skip := min(r.preface, len(data))
	r.preface -= skip
	data = data[skip:]
	r.add = add
	for len(data) > 0 || r.within && r.left == 0 {
		if !r.within {
			n := min(frameHead-len(r.head), len(data))
			r.head = append(r.head, data[:n]...)
			data = data[n:]
			if len(r.head) < frameHead {
				return
			}
			r.begin()
		}
		n := min(r.left, len(data))
		r.left -= n
		r.take(data[:n])
		data = data[n:]
		if r.left > 0 {
			return
		}
		r.end()
	}
}

// begin reads the head of a frame.
func (r *httpReader) begin() {
	h := r.head
	r.frame = http2.FrameHeader{
		Length: uint32(h[0])<<16 | uint32(h[1])<<8 | uint32(h[2]), Type: http2.FrameType(h[3]), Flags: http2.Flags(h[4]),
		StreamID: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1),
	}
	r.head, r.left, r.within, r.payload = r.head[:0], int(r.frame.Length), true, r.payload[:0]
}

// take reads bytes of the payload of a frame.
func (r *httpReader) take(data []byte) {
	switch r.frame.Type {
	case http2.FrameData:
		r.data(data)
	case http2.FrameHeaders, http2.FrameContinuation:
		r.payload = append(r.payload, data...)
	}
}

// end handles the end of a frame.
func (r *httpReader) end() {
	r.within = false
	size := frameHead + int(r.frame.Length)
	switch r.frame.Type {
	case http2.FrameData:
		if r.frame.Flags.Has(http2.FlagDataEndStream) {
			r.ends(r.frame.StreamID)
		}
	case http2.FrameHeaders, http2.FrameContinuation:
		r.endHeaders(size)
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

// endHeaders reads headers that are complete, or a part of them.
func (r *httpReader) endHeaders(size int) {
	block := r.payload
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
	side := 1
	if r.client {
		side = 0
	}
	r.say(c, len(data), c.messages[side].read(data, fieldsOf(c.procedure, r.client))...)
}

// ends notes that this end sends nothing more on a stream.
func (r *httpReader) ends(id uint32) {
	c := r.calls.streams[id]
	if c == nil {
		return
	}
	side := 1
	if r.client {
		side = 0
	}
	if c.ended[side] = true; c.ended[0] && c.ended[1] {
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
