package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// line is one line of a trace file: a claim and the time of the machine's wall
// clock when it was made.
type line struct {
	At time.Time `json:"at"`
	Claim
	Err string `json:"err,omitempty"` // Claim.Err as text, because an error does not marshal
}

// To returns a sink that writes each claim as one line of JSON, in one Write,
// before it returns to the node, so that claims survive a kill -9 of the
// process. A claim that cannot be written is lost.
func To(w io.Writer) Sink {
	var mu sync.Mutex // keeps the lines in the order of their times
	return func(c Claim) {
		l := line{Claim: c}
		if c.Err != nil {
			l.Err = c.Err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		l.At = time.Now()
		b, err := json.Marshal(l)
		if err == nil {
			_, _ = w.Write(append(b, '\n')) // a claim that cannot be written is lost
		}
	}
}

// Load calls report with each claim of a file that a sink of To has written. A
// line that was cut short when its process was killed is not an error: it is
// the last one, or the next process of that name has appended its first line to
// it.
func Load(r io.Reader, report func(at time.Time, c Claim)) error {
	lines := bufio.NewReader(r)
	for {
		b, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// Drop a line that was cut short. Within a JSON string the quotes
		// would be escaped, so this prefix only occurs where a line starts.
		if whole := bytes.LastIndex(b, []byte(`{"at":`)); whole > 0 {
			b = b[whole:]
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			return err
		}
		if l.Err != "" {
			l.Claim.Err = errors.New(l.Err)
		}
		report(l.At, l.Claim)
	}
}
