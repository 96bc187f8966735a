package glue

import (
	"bytes"
	"errors"
	"io"
	"syscall/js"

	"github.com/andybalholm/brotli"
)

// partSize is how many unpacked bytes worker.js gets at a time, which are compiled while the
// next ones are unpacked.
const partSize = 1 << 20

// Unpack reports whether worker.js has a packed file. If so, it unpacks the file, by the
// parts for which worker.js calls next, which is null after the last one.
func Unpack() bool {
	packed := Bytes("packed")
	if packed == nil {
		return false
	}
	from, part, ended := brotli.NewReader(bytes.NewReader(packed)), make([]byte, partSize), make(chan struct{})
	worker.Set("next", js.FuncOf(func(js.Value, []js.Value) any {
		n, err := io.ReadFull(from, part)
		if n == 0 {
			if !errors.Is(err, io.EOF) {
				Fail(err)
			}
			close(ended)
			return nil
		}
		out := js.Global().Get("Uint8Array").New(n)
		js.CopyBytesToJS(out, part[:n])
		return out
	}))
	<-ended
	return true
}
