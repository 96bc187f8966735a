// Package clitest helps to test programs.
package clitest

import (
	"bytes"
	"sync"
)

// Output is a buffer that may be read while a program writes to it. Its zero
// value is empty.
type Output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write appends to the buffer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
