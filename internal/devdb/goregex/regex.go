// Package regex takes the place of github.com/dolthub/go-icu-regex, which the SQL
// engine uses for REGEXP, and refuses every pattern. The original contains the ICU
// library as WebAssembly and compiles it whenever a program that links the engine
// starts. That costs every database process and test binary 0.3 s and 10 MiB, and
// several seconds with the race detector, for functions that no statement of
// Conclave uses.
package regex

import (
	"context"
	"errors"
)

// ErrUnsupported is the answer to every pattern.
var ErrUnsupported = errors.New("this embedded server does not support regular expressions: use LIKE")

// RegexFlags are those of the original.
type RegexFlags uint32

const (
	RegexFlags_None             RegexFlags = 0
	RegexFlags_Unix_Lines       RegexFlags = 1
	RegexFlags_Case_Insensitive RegexFlags = 2
	RegexFlags_Multiline        RegexFlags = 8
	RegexFlags_Dot_All          RegexFlags = 32
)

// Regex has the methods that the engine calls. SetRegexString is the first.
type Regex interface {
	SetRegexString(ctx context.Context, pattern string, flags RegexFlags) error
	SetMatchString(ctx context.Context, text string) error
	IndexOf(ctx context.Context, start, occurrence int, endIndex bool) (int, error)
	Matches(ctx context.Context, start, occurrence int) (bool, error)
	Replace(ctx context.Context, replacement string, start, occurrence int) (string, error)
	Substring(ctx context.Context, start, occurrence int) (string, bool, error)
	Close() error
}

// CreateRegex returns a Regex that refuses its pattern.
func CreateRegex(uint32) Regex { return unsupported{} }

// SetRegexLeakHandler does nothing.
func SetRegexLeakHandler(func()) {}

type unsupported struct{}

func (unsupported) SetRegexString(context.Context, string, RegexFlags) error { return ErrUnsupported }
func (unsupported) SetMatchString(context.Context, string) error             { return ErrUnsupported }
func (unsupported) IndexOf(context.Context, int, int, bool) (int, error)     { return 0, ErrUnsupported }
func (unsupported) Matches(context.Context, int, int) (bool, error)          { return false, ErrUnsupported }
func (unsupported) Close() error                                             { return nil }

func (unsupported) Replace(context.Context, string, int, int) (string, error) {
	return "", ErrUnsupported
}

func (unsupported) Substring(context.Context, int, int) (string, bool, error) {
	return "", false, ErrUnsupported
}
