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

// line is a claim in a file: when it was made, by the wall clock of its machine.
type line struct {
	At time.Time `json:"at"`
	Claim
	Err string `json:"err,omitempty"` // of the claim: an error is not JSON
}

// To is a sink that writes each claim as one line of JSON, in one Write, before
// the node goes on: what was claimed survives a kill -9 of the process. A claim
// that cannot be written is lost.
func To(w io.Writer) Sink {
	var mu sync.Mutex // orders the lines as their times
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
			_, _ = w.Write(append(b, '\n')) // see above
		}
	}
}

// Load calls told with each claim of a file of To. A line that was cut short by the
// end of its process is no error: it is the file's last, or the next process of that
// name has written on behind it.
func Load(r io.Reader, told func(at time.Time, c Claim)) error {
	lines := bufio.NewReader(r)
	for {
		b, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if whole := bytes.LastIndex(b, []byte(`{"at":`)); whole > 0 { // inside a text its quotes would be escaped
			b = b[whole:]
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			return err
		}
		if l.Err != "" {
			l.Claim.Err = errors.New(l.Err)
		}
		told(l.At, l.Claim)
	}
}
