package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"conclave/testbed/bench"
)

// story prints a demo while it runs: scenes with their figures and where to
// look. With
// --json it prints everything at the end.
type story struct {
	out    io.Writer
	quiet  bool // JSON
	start  time.Time
	scenes []scene
}

type scene struct {
	Name    string        `json:"name"`
	What    string        `json:"what"`
	AtMs    int64         `json:"atMs"`
	Figures []sceneFigure `json:"figures"`
	Look    string        `json:"look,omitempty"`
}

type sceneFigure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

const (
	storyWidth = 100
	nameWidth  = 36
	valueWidth = 9
)

func newStory(out io.Writer, quiet bool) *story {
	return &story{out: out, quiet: quiet, start: time.Now()}
}

func (s *story) say(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintln(s.out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

func (s *story) title(name, what, more string) {
	s.say("%s", strings.Repeat("=", storyWidth))
	s.say("%s: %s", name, what)
	s.say("%s", more)
	s.say("%s", strings.Repeat("=", storyWidth))
}

// scene begins a scene.
func (s *story) scene(name, what string) {
	at := time.Since(s.start)
	s.scenes = append(s.scenes, scene{Name: name, What: what, AtMs: at.Milliseconds(), Figures: []sceneFigure{}})
	s.say("\n%5.1f s  %d. %s", at.Seconds(), len(s.scenes), name)
	s.say("         %s", what)
}

func (s *story) last() *scene { return &s.scenes[len(s.scenes)-1] }

// figure adds a figure to the present scene.
func (s *story) figure(name, value, note string) {
	s.last().Figures = append(s.last().Figures, sceneFigure{name, value, note})
	s.say("         | %s %s   %s", pad(name, nameWidth), padLeft(value, valueWidth), note)
}

// progress prints a line of a long scene.
func (s *story) progress(format string, args ...any) {
	s.say("         . %s", fmt.Sprintf(format, args...))
}

// look prints where the user can see the same.
func (s *story) look(where string) {
	s.last().Look = where
	s.say("         > look at: %s", where)
}

// The errors of a verdict.
var (
	errNotLooked = errors.New("nothing was checked")
	errNotAll    = errors.New("not every invariant was checked")
	errBroke     = errors.New("an invariant was violated")
)

// verdict prints the result. It returns nil if every invariant was checked and
// held.
func (s *story) verdict(all []bench.Invariant, broken []string) error {
	var verdict error
	checks := 0
	for _, i := range all {
		checks += i.Checks
		if i.Checks == 0 {
			verdict = errNotAll
		}
	}
	if checks == 0 {
		verdict = errNotLooked
	}
	if slices.ContainsFunc(all, func(i bench.Invariant) bool { return i.Broken > 0 }) {
		verdict = errBroke
	}
	if s.quiet {
		_ = json.NewEncoder(s.out).Encode(map[string]any{ // the exit code still has the result
			"scenes": s.scenes, "invariants": all, "broken": orEmpty(broken), "held": verdict == nil, "tookMs": since(s.start),
		})
		return verdict
	}
	s.say("\n%s", strings.Repeat("-", storyWidth))
	s.say("%s %10s %8s", pad("INVARIANT", 60), "CHECKS", "BROKEN")
	for _, i := range all {
		s.say("%s %10d %8d", pad(i.Name, 60), i.Checks, i.Broken)
	}
	for i, b := range broken {
		if i == 10 {
			s.say("... and %d more", len(broken)-i)
			break
		}
		s.say("BROKEN  %s", b)
	}
	s.say("%s", strings.Repeat("-", storyWidth))
	switch {
	case verdict == nil:
		s.say("Every invariant held: %d checks in %.0f s.", checks, time.Since(s.start).Seconds())
	case errors.Is(verdict, errNotLooked):
		s.say("Nothing was checked.")
	case errors.Is(verdict, errNotAll):
		s.say("NOT every invariant was checked; those that were held.")
	default:
		s.say("NOT every invariant held.")
	}
	return verdict
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}
