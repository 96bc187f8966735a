package glue

import (
	"bytes"
	"io"
	"syscall/js"

	"github.com/andybalholm/brotli"
)

// Unpack unpacks the file that worker.js has, if it has one, and gives it the parts. It
// reports whether there was one.
func Unpack() bool {
	job := js.Global().Get("conclave").Get("unpack")
	if !job.Truthy() {
		return false
	}
	if _, err := io.Copy(taker{job}, brotli.NewReader(bytes.NewReader(bytesOf(job.Get("packed"))))); err != nil {
		job.Set("failed", err.Error())
	}
	return true
}

// taker writes to worker.js.
type taker struct{ job js.Value }

func (t taker) Write(part []byte) (int, error) {
	out := js.Global().Get("Uint8Array").New(len(part))
	js.CopyBytesToJS(out, part)
	t.job.Call("take", out)
	return len(part), nil
}
