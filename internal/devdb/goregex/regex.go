// Package regex replaces github.com/dolthub/go-icu-regex, which the SQL engine
// uses for REGEXP, with Go's own regexp package. The original contains the ICU
// library as WebAssembly and compiles it whenever a program that links the
// engine starts. That costs every database process and test binary 0.3 s and 10
// MiB, and several seconds with the race detector, for functions that no
// statement of Conclave uses.
//
// Patterns have Go's syntax (RE2), so look-arounds and back-references are
// missing. Everything else of REGEXP_LIKE, REGEXP_INSTR, REGEXP_SUBSTR and
// REGEXP_REPLACE works. Positions are in characters and start at 1.
package regex

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Regex is a pattern and the text to match. It is not safe for concurrent use.
type Regex interface {
	// SetRegexString compiles the pattern. It must be called first.
	SetRegexString(ctx context.Context, pattern string, flags RegexFlags) error
	// SetMatchString sets the text.
	SetMatchString(ctx context.Context, text string) error
	// IndexOf returns the start of the occurrence-th match from start on, or
	// its end; 0 if there is none.
	IndexOf(ctx context.Context, start, occurrence int, endIndex bool) (int, error)
	// Matches reports whether there is an occurrence-th match from start on.
	// Here start counts from 0.
	Matches(ctx context.Context, start, occurrence int) (bool, error)
	// Replace replaces the occurrence-th match from start on, or all if
	// occurrence is 0. In the replacement $n stands for a group and \x for x.
	Replace(ctx context.Context, replacement string, start, occurrence int) (string, error)
	// Substring returns the occurrence-th match from start on.
	Substring(ctx context.Context, start, occurrence int) (string, bool, error)
	// StringBufferSize returns 0; it is for implementations with their own
	// buffers.
	StringBufferSize() uint32
	Close() error
}

// RegexFlags can be combined. The values are those of ICU.
type RegexFlags uint32

const (
	RegexFlags_None             RegexFlags = 0
	RegexFlags_Unix_Lines       RegexFlags = 1
	RegexFlags_Case_Insensitive RegexFlags = 2
	RegexFlags_Multiline        RegexFlags = 8
	RegexFlags_Literal          RegexFlags = 16
	RegexFlags_Dot_All          RegexFlags = 32
)

var (
	// ErrRegexNotYetSet: SetRegexString was not called or has failed.
	ErrRegexNotYetSet = errors.New("SetRegexString must be called before any other function")
	// ErrMatchNotYetSet: SetMatchString was not called.
	ErrMatchNotYetSet = errors.New("SetMatchString must be called as there is nothing to match against")
)

// CreateRegex returns a Regex without a pattern.
func CreateRegex(uint32) Regex { return &pattern{} }

// SetRegexLeakHandler does nothing, because all memory is garbage-collected.
func SetRegexLeakHandler(func()) {}

type pattern struct {
	re   *regexp.Regexp
	text *string
}

var _ Regex = (*pattern)(nil)

func (p *pattern) SetRegexString(_ context.Context, source string, flags RegexFlags) error {
	p.re, p.text = nil, nil
	if flags&RegexFlags_Literal != 0 {
		source = regexp.QuoteMeta(source)
	}
	if flags&RegexFlags_Case_Insensitive != 0 {
		source = "(?i)" + source
	}
	if flags&RegexFlags_Multiline != 0 {
		source = "(?m)" + source
	}
	if flags&RegexFlags_Dot_All != 0 {
		source = "(?s)" + source
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return fmt.Errorf("the given regular expression is invalid: %w", err)
	}
	p.re = re
	return nil
}

func (p *pattern) SetMatchString(_ context.Context, text string) error {
	if p.re == nil {
		return ErrRegexNotYetSet
	}
	p.text = &text
	return nil
}

// find returns the bounds, in bytes of the text, of the matches that start
// after skip characters or later.
func (p *pattern) find(skip int) ([][]int, error) {
	if p.re == nil {
		return nil, ErrRegexNotYetSet
	}
	if p.text == nil {
		return nil, ErrMatchNotYetSet
	}
	from := len(*p.text)
	for i := range *p.text {
		if skip <= 0 {
			from = i
			break
		}
		skip--
	}
	var found [][]int
	for _, m := range p.re.FindAllStringSubmatchIndex(*p.text, -1) {
		if m[0] >= from {
			found = append(found, m)
		}
	}
	return found, nil
}

func (p *pattern) nth(skip, occurrence int) ([]int, error) {
	found, err := p.find(skip)
	if err != nil || len(found) < max(occurrence, 1) {
		return nil, err
	}
	return found[max(occurrence, 1)-1], nil
}

func (p *pattern) IndexOf(_ context.Context, start, occurrence int, endIndex bool) (int, error) {
	m, err := p.nth(start-1, occurrence)
	if m == nil {
		return 0, err
	}
	at := m[0]
	if endIndex {
		at = m[1]
	}
	return utf8.RuneCountInString((*p.text)[:at]) + 1, nil
}

func (p *pattern) Matches(_ context.Context, start, occurrence int) (bool, error) {
	m, err := p.nth(start, occurrence)
	return m != nil, err
}

func (p *pattern) Substring(_ context.Context, start, occurrence int) (string, bool, error) {
	m, err := p.nth(start-1, occurrence)
	if m == nil {
		return "", false, err
	}
	return (*p.text)[m[0]:m[1]], true, nil
}

func (p *pattern) Replace(_ context.Context, replacement string, start, occurrence int) (string, error) {
	found, err := p.find(start - 1)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	done := 0
	for n, m := range found {
		if occurrence != 0 && n+1 != occurrence {
			continue
		}
		out.WriteString((*p.text)[done:m[0]])
		if err := p.expand(&out, replacement, m); err != nil {
			return "", err
		}
		done = m[1]
	}
	out.WriteString((*p.text)[done:])
	return out.String(), nil
}

// expand writes the replacement for one match.
func (p *pattern) expand(out *strings.Builder, replacement string, m []int) error {
	for i := 0; i < len(replacement); i++ {
		switch c := replacement[i]; {
		case c == '\\' && i+1 < len(replacement):
			i++
			out.WriteByte(replacement[i])
		case c == '$':
			group, digits := 0, 0
			for i+1 < len(replacement) && '0' <= replacement[i+1] && replacement[i+1] <= '9' && (digits == 0 || group*10 <= p.re.NumSubexp()) {
				i++
				digits++
				group = group*10 + int(replacement[i]-'0')
			}
			if digits == 0 || group > p.re.NumSubexp() {
				return fmt.Errorf("replacement %q refers to a group that the pattern does not have", replacement)
			}
			if m[2*group] >= 0 {
				out.WriteString((*p.text)[m[2*group]:m[2*group+1]])
			}
		default:
			out.WriteByte(c)
		}
	}
	return nil
}

func (p *pattern) StringBufferSize() uint32 { return 0 }

func (p *pattern) Close() error {
	p.re, p.text = nil, nil
	return nil
}
