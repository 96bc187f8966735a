package supervisor

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// lastLine returns the last line of a log, which is usually the reason why the
// process has ended.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	const tail = 4096
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd) // if it fails, the file is read from the start
	}
	body, err := io.ReadAll(io.LimitReader(f, 1<<20))
	body = bytes.TrimSpace(body)
	if err != nil || len(body) == 0 {
		return "no log"
	}
	return strings.TrimSpace(string(body[bytes.LastIndexByte(body, '\n')+1:]))
}
