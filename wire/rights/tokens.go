package rights

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// checkEvery is the time between two checks whether a token file has changed.
const checkEvery = 2 * time.Second

// maxFile limits the size of a token file.
const maxFile = 1 << 20

// Tokens are the tokens that are valid now. A nil *Tokens is open: it asks for
// none. All methods may be called from any goroutine.
type Tokens struct {
	file   string           // "": they never change
	opened fs.FileInfo      // of the file when it was read first
	report func(line error) // of a reload: an error, or nil for a success

	set atomic.Pointer[Set]

	mu   sync.Mutex // guards held
	held map[*Hold]bool
}

// Fixed returns the tokens of a node with one token, which has the right operator;
// nil, which is open, for "".
func Fixed(token string) *Tokens {
	if token == "" {
		return nil
	}
	s := &Set{}
	_ = s.add(Identity{BareName, Operator}, token) // fails only for a second one
	return of(s)
}

func of(s *Set) *Tokens {
	t := &Tokens{held: map[*Hold]bool{}, report: func(error) {}}
	t.set.Store(s)
	return t
}

// OpenFile returns the tokens of a file. report is called after each reload.
func OpenFile(file string, report func(error)) (*Tokens, error) {
	opened := stat(file)
	s, err := ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := of(s)
	t.file, t.opened, t.report = file, opened, report
	return t, nil
}

// ReadFile reads a token file. A file with rights is refused if it belongs to
// this process's user and others may read it. (A file of another user, such as a
// secret that is mounted in a container, can only be read because others may.)
func ReadFile(file string) (*Set, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxFile)
	}
	s, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !s.bare() && readableByOthers(info) {
		return nil, fmt.Errorf("%s has the mode %#o, so other users can read it (want 0600)", file, info.Mode().Perm())
	}
	return s, nil
}

// bare reports whether the set has only a token without a right: files of that
// form were read with any mode before there were rights, and still are.
func (s *Set) bare() bool {
	return len(s.entries) == 1 && s.entries[0].Identity == Identity{BareName, Operator}
}

// Run reloads the file until ctx ends: at each value from now, and when its
// modification has changed. A change counts when the next check finds the same, so
// that a file that is being written is not read in the middle.
func (t *Tokens) Run(ctx context.Context, now <-chan os.Signal) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	read := t.opened
	seen := read
	for {
		select {
		case <-ctx.Done():
			return
		case <-now:
			read = stat(t.file)
			seen = read
			t.Reload()
		case <-tick.C:
			found := stat(t.file)
			if same(found, seen) && !same(found, read) {
				read = found
				t.Reload()
			}
			seen = found
		}
	}
}

// stat returns the state of a file, nil if there is none.
func stat(file string) fs.FileInfo {
	info, err := os.Stat(file)
	if err != nil {
		return nil
	}
	return info
}

// same reports whether two states of a file are the same.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// Reload reads the file again. If that fails, the tokens stay as they are. What
// is held with a token that is not valid any more, or has another identity, is
// ended.
func (t *Tokens) Reload() {
	s, err := ReadFile(t.file)
	if err != nil {
		t.report(err)
		return
	}
	t.set.Store(s)
	for _, h := range t.revoked() {
		h.end()
	}
	t.report(nil)
}

// revoked returns what is held with a token whose identity has changed.
func (t *Tokens) revoked() (out []*Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.held {
		if !t.stands(h) {
			out = append(out, h)
		}
	}
	return out
}

// Open reports whether no token is needed.
func (t *Tokens) Open() bool { return t == nil }

// Identify returns the identity of a credential, which is a token or one that is
// bound to the address of the node that was sent it, and whether it is valid.
func (t *Tokens) Identify(credential, address string) (Identity, bool) {
	if t == nil {
		return Identity{Right: Operator}, true
	}
	e, ok := t.set.Load().find(credential, address)
	return e.Identity, ok
}

// Forward returns the credential with which the node at an address passes a request
// on to the node at another one: that of the same token, bound to the other address.
func (t *Tokens) Forward(credential, address, to string) string {
	if t == nil {
		return ""
	}
	e, _ := t.set.Load().find(credential, address)
	return Bind(e.token, to)
}

// Token returns the token that this process sends as the named node; see
// Set.Token.
func (t *Tokens) Token(right Right, name string) string {
	if t == nil {
		return ""
	}
	return t.set.Load().Token(right, name)
}

// Hold is a request that runs for long.
type Hold struct {
	tokens              *Tokens
	credential, address string
	identity            Identity
	end                 func()
}

// Hold calls end, from any goroutine and at most a few times, when a credential (see
// Identify) is not valid any more or its identity is not as it was, until Release is
// called on what is returned: also at once, if that has changed since Identify
// returned the identity. end must not block.
func (t *Tokens) Hold(credential, address string, as Identity, end func()) *Hold {
	h := &Hold{t, credential, address, as, end}
	if t == nil {
		return h
	}
	t.mu.Lock()
	t.held[h] = true
	t.mu.Unlock()
	if !t.stands(h) { // a reload since then may not have seen h
		end()
	}
	return h
}

// stands reports whether the token of a hold is valid and has the same identity.
func (t *Tokens) stands(h *Hold) bool {
	id, ok := t.Identify(h.credential, h.address)
	return ok && id == h.identity
}

// Release ends the hold. end may still be running.
func (h *Hold) Release() {
	if h.tokens != nil {
		h.tokens.mu.Lock()
		defer h.tokens.mu.Unlock()
		delete(h.tokens.held, h)
	}
}
