package journal

import (
	"testing"
	"time"
)

// EncodeForTest returns records as the bytes of a block, before it is compressed.
func EncodeForTest(t testing.TB, records []Record) []byte {
	e := newEncoder(time.Time{})
	for _, r := range records {
		if err := e.record(r); err != nil {
			t.Fatal(err)
		}
	}
	return e.buf
}

// DecodeForTest reads the bytes of a block until its end or an error.
func DecodeForTest(b []byte) {
	d := &decoder{buf: b}
	for len(d.buf) > 0 {
		if _, err := d.record(); err != nil {
			return
		}
	}
}
