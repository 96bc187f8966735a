package wire

import (
	"encoding/binary"
	"io"
	"net/http"
)

// streamClient sends requests as its client does, and a message on a stream that fits into a
// frame by one system call instead of two.
type streamClient struct{ *http.Client }

// Do implements connect.HTTPClient.
func (c streamClient) Do(r *http.Request) (*http.Response, error) {
	if pipe, stream := r.Body.(*io.PipeReader); stream {
		r.Body = &wholeMessages{ReadCloser: pipe}
	}
	return c.Client.Do(r) //nolint:gosec // to the address of a member, or one that is configured
}

// prefixBytes is how long the prefix of a message is: flags, and the length of the message
// in four bytes.
const prefixBytes = 5

// wholeMessages is the body of a stream. Connect writes the prefix of a message and then the
// message, and net/http sends what each Read returns; here that is both.
type wholeMessages struct {
	io.ReadCloser
	left int // bytes of the present message that were not read yet
}

// Read implements io.Reader, for buffers that have room for a prefix.
func (m *wholeMessages) Read(p []byte) (n int, err error) {
	if m.left == 0 {
		if n, err = io.ReadFull(m.ReadCloser, p[:prefixBytes]); err != nil {
			return n, err
		}
		if m.left = int(binary.BigEndian.Uint32(p[1:prefixBytes])); m.left == 0 {
			return n, nil
		}
	}
	more, err := m.ReadCloser.Read(p[n:min(len(p), n+m.left)])
	m.left -= more
	return n + more, err
}
