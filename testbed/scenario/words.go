package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parser reads a file line by line and each line word by word.
type parser struct {
	file  string
	line  int
	words []string
	lease time.Duration
	s     Scenario
}

// next returns the next word, or "" at the end of the line.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// rest returns all other words of the line.
func (p *parser) rest() string {
	text := strings.Join(p.words, " ")
	p.words = nil
	return text
}

// accept consumes the words if they come next, and reports whether they did.
func (p *parser) accept(words ...string) bool {
	if len(p.words) < len(words) || !slices.Equal(p.words[:len(words)], words) {
		return false
	}
	p.words = p.words[len(words):]
	return true
}

func (p *parser) want(words ...string) error {
	if p.accept(words...) {
		return nil
	}
	return fmt.Errorf("want %q, found %q", strings.Join(words, " "), strings.Join(p.words, " "))
}

func (p *parser) number() (int, error) {
	w := p.next()
	n, err := strconv.Atoi(w)
	if err != nil || n < 0 || n > 1e9 {
		return 0, fmt.Errorf("invalid number %q (want 0 to 1000000000)", w)
	}
	return n, nil
}

// duration reads a sum such as 500ms, lease+10s or 2lease.
func (p *parser) duration() (time.Duration, error) {
	w := p.next()
	var sum time.Duration
	for term := range strings.SplitSeq(w, "+") {
		if n, ok := strings.CutSuffix(term, "lease"); ok {
			times := 1.0
			if n != "" {
				var err error
				if times, err = strconv.ParseFloat(n, 64); err != nil || times < 0 || times > 1000 {
					return 0, fmt.Errorf("invalid number of leases %q (want 0 to 1000)", term)
				}
			}
			sum += time.Duration(times * float64(p.lease))
			continue
		}
		d, err := time.ParseDuration(term)
		if err != nil || d > 1000*time.Hour || d < -1000*time.Hour {
			return 0, fmt.Errorf("invalid duration %q (want for example 500ms, 2s or lease+1s, at most 1000h)", w)
		}
		sum += d
	}
	return sum, nil
}
