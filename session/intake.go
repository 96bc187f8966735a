package session

import (
	"errors"
	"io"
	"os"

	"conclave/wire"
	"conclave/wire/admit"
)

// The intake bounds the messages that clients have sent in part, or whose handling
// waits, in bytes: of each address, and of all. The stream that exceeds it ends, and
// its client connects again.
//
// Small messages count only until they have arrived. The SDK's are small, except
// those with one very large registration.
const (
	intakeAll   = 256 << 20
	intakeEach  = 64 << 20 // of one address
	intakeSmall = 256 << 10
)

// incoming is the body of one client's stream. Only the stream's handler uses it.
type incoming struct {
	io.ReadCloser
	intake *admit.Budget
	host   string
	bytes  int // that it has taken
	full   bool
	broken bool // the client's side has reset the stream or closed the connection
}

// errIntake ends a stream that exceeds the intake. Its code lets the client connect
// again.
var errIntake = wire.Errorf(wire.CodeUnavailable, "too many bytes of messages that have not arrived completely, or are not handled yet")

// Read implements io.Reader.
func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.broken = err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded)
	if n > 0 {
		if !b.intake.Try(b.host, n) {
			b.full = true
			return 0, errIntake
		}
		b.bytes += n
	}
	return n, err
}

// arrived is called when a message is complete.
func (b *incoming) arrived() {
	if b.bytes <= intakeSmall {
		b.handled()
	}
}

// handled is called when a message was handled, and at the end.
func (b *incoming) handled() {
	if b.bytes > 0 {
		b.intake.Release(b.host, b.bytes)
		b.bytes = 0
	}
}
