package supervisor

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// lastLine is the last line that a process wrote: why it ended, mostly.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "it wrote no log"
	}
	defer f.Close()
	const tail = 4096
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd) // failing, we read from the start
	}
	body, err := io.ReadAll(io.LimitReader(f, 1<<20))
	body = bytes.TrimSpace(body)
	if err != nil || len(body) == 0 {
		return "it wrote no log"
	}
	return strings.TrimSpace(string(body[bytes.LastIndexByte(body, '\n')+1:]))
}
