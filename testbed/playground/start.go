package playground

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"conclave/testbed/console"
)

const (
	maxNodes = 9         // of one role
	maxTime  = time.Hour // since the start
)

// Start determines a run: its seed, how many nodes the cluster has (0: as many as by
// default), and what is done to it. Two runs of one Start are equal, message by message,
// if the runtime's choices are seeded too (simulated.OneTrace).
type Start struct {
	Seed                   uint64
	Metas, Sessions, Datas int
	Acts                   []Act         // in order of their times
	Moment                 time.Duration // until then the run is played as fast as it can be, and then it pauses
}

// Act is something that a viewer has asked for, a time after the start: one of the
// console's actions, a scenario or a storm among them.
type Act struct {
	At time.Duration
	console.Request
}

// String returns the start as text for the fragment of an address, in which no character
// needs an escape:
//
//	SEED[*METAS*SESSIONS*DATAS][~SECONDS*ACTION[*NODE[*PEER[*VALUE]]]]..[~MOMENT]
//
// as in 7~1.25*kill*meta-1~9*storm***3~20.
func (s Start) String() string {
	var b strings.Builder
	b.WriteString(strconv.FormatUint(s.Seed, 10))
	if s.Metas != 0 || s.Sessions != 0 || s.Datas != 0 {
		fmt.Fprintf(&b, "*%d*%d*%d", s.Metas, s.Sessions, s.Datas)
	}
	for _, a := range s.Acts {
		b.WriteString("~" + strings.TrimRight(strings.Join([]string{seconds(a.At), a.Do, a.Node, a.Peer, a.Value}, "*"), "*"))
	}
	if s.Moment > 0 {
		b.WriteString("~" + seconds(s.Moment))
	}
	return b.String()
}

// seconds returns a time since the start, which has whole microseconds.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1e6, 'f', -1, 64)
}

// parseSeconds reads what seconds has written.
func parseSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= maxTime.Seconds()) {
		return 0, fmt.Errorf("time %q: want seconds, up to %d", s, int(maxTime.Seconds()))
	}
	return time.Duration(math.Round(f*1e6)) * time.Microsecond, nil
}

var word = regexp.MustCompile(`^[A-Za-z0-9.-]{0,64}$`)

// ParseStart reads the text of a Start. It comes from an address, so it may be anything: an
// error names the first part that is wrong. Whether an action fits the cluster is seen when
// it is played; one that does not changes nothing.
func ParseStart(text string) (s Start, err error) {
	parts := strings.Split(text, "~")
	head := strings.Split(parts[0], "*")
	if s.Seed, err = strconv.ParseUint(head[0], 10, 64); err != nil {
		return s, fmt.Errorf("seed %q: want a number", head[0])
	}
	if len(head) != 1 && len(head) != 4 {
		return s, fmt.Errorf("%q: want a seed, or a seed and three numbers of nodes", parts[0])
	}
	for i, n := range head[1:] {
		to := []*int{&s.Metas, &s.Sessions, &s.Datas}[i]
		if *to, err = strconv.Atoi(n); err != nil || *to < 0 || *to > maxNodes {
			return s, fmt.Errorf("%q nodes of a role: want up to %d", n, maxNodes)
		}
	}
	last := time.Duration(0)
	for i, part := range parts[1:] {
		fields := strings.Split(part, "*")
		at, err := parseSeconds(fields[0])
		switch {
		case err != nil:
			return s, err
		case at < last:
			return s, fmt.Errorf("%q: it is earlier than what stands before it", part)
		case len(fields) == 1 && i == len(parts)-2:
			s.Moment = at
			return s, nil
		}
		last = at
		a, err := parseAct(at, fields[1:])
		if err != nil {
			return s, fmt.Errorf("%q: %w", part, err)
		}
		s.Acts = append(s.Acts, a)
	}
	return s, nil
}

func parseAct(at time.Duration, fields []string) (a Act, err error) {
	a.At = at
	to := []*string{&a.Do, &a.Node, &a.Peer, &a.Value}
	if len(fields) == 0 || len(fields) > len(to) || fields[0] == "" {
		return a, fmt.Errorf("want a time, an action, and up to %d words", len(to)-1)
	}
	for i, f := range fields {
		if !word.MatchString(f) {
			return a, fmt.Errorf("%q is no word of an action", f)
		}
		*to[i] = f
	}
	return a, nil
}
