package rights

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
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

// Set is a number of tokens, each with its identity. It does not change.
type Set struct{ entries []entry }

type entry struct {
	Identity
	token  string // to be sent by this process
	digest [sha256.Size]byte
}

// maxField limits the name and the token on a line, in bytes.
const maxField = 256

// BareName is the name of the identity of a token without one: a file with only
// a token, or the token of a configuration.
const BareName = "operator"

// Parse reads tokens. A line is RIGHT NAME TOKEN, or a token alone, which has the
// right operator and the name BareName. Empty lines and lines that begin with # are
// ignored. The error names the line, and never contains a token.
func Parse(text string) (*Set, error) {
	s := &Set{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.parseLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if len(s.entries) == 0 {
		return nil, fmt.Errorf("there is no token: the file is empty")
	}
	return s, nil
}

func (s *Set) parseLine(line string) error {
	id, token := Identity{BareName, Operator}, line
	switch fields := strings.Fields(line); len(fields) {
	case 1:
	case 3:
		right, err := parseRight(fields[0])
		if err != nil {
			return err
		}
		id, token = Identity{fields[1], right}, fields[2]
	default:
		return fmt.Errorf("%d words (want RIGHT NAME TOKEN, or a token alone)", len(fields))
	}
	if err := CheckToken(token); err != nil {
		return err
	}
	for _, field := range []string{id.Name, token} {
		if len(field) > maxField || strings.ContainsFunc(field, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("a name or token is invalid (want 1 to %d printable ASCII characters)", maxField)
		}
	}
	return s.add(id, token)
}

func (s *Set) add(id Identity, token string) error {
	e := entry{id, token, sha256.Sum256([]byte(token))}
	for _, other := range s.entries {
		if other.digest == e.digest && other.Identity != id {
			return fmt.Errorf("the token of %s %s is also that of %s %s", id.Right, id.Name, other.Right, other.Name)
		}
	}
	s.entries = append(s.entries, e)
	return nil
}

// Strongest returns the first token with the highest right.
func (s *Set) Strongest() string {
	best := s.entries[0]
	for _, e := range s.entries {
		if e.Right > best.Right {
			best = e
		}
	}
	return best.token
}

// Token returns the first token with exactly a right: that of the given name if
// there is one, otherwise of any name. If there is none, it returns one of the
// lowest right above, or "".
func (s *Set) Token(right Right, name string) string {
	for r := right; r <= Operator; r++ {
		found := ""
		for _, e := range s.entries {
			if e.Right == r && (e.Name == name || found == "") {
				if found = e.token; e.Name == name {
					break
				}
			}
		}
		if found != "" {
			return found
		}
	}
	return ""
}

// Right is what an identity may do. A higher right implies the lower ones.
type Right int

// The rights, the lowest first.
const (
	Open     Right = iota // no token is needed
	Read                  // lists, values, the names and addresses of clients
	Publish               // to register values, and Read
	Node                  // what nodes send each other, and Publish
	Operator              // to change the cluster, and everything else
)

var names = [...]string{Open: "open", Read: "read", Publish: "publish", Node: "node", Operator: "operator"}

func (r Right) String() string { return names[r] }

// parseRight returns the right of a name in a token file.
func parseRight(name string) (Right, error) {
	for r := Read; r <= Operator; r++ {
		if names[r] == name {
			return r, nil
		}
	}
	return Open, fmt.Errorf("unknown right (want %s)", strings.Join(names[Read:], ", "))
}

// Identity is who sends a request. The zero Identity sent no token.
type Identity struct {
	Name  string
	Right Right
}

// May reports whether the identity has a right.
func (i Identity) May(r Right) bool { return i.Right >= r }

type identityKey struct{}

// With returns a context of a request of that identity.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// Of returns the identity that sent the request with this context. ok is false if
// none was determined, which is so outside of the handlers of a node.
func Of(ctx context.Context) (id Identity, ok bool) {
	id, ok = ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// boundPrefix begins every bound token.
const boundPrefix = "bound."

// CheckToken returns an error if no node would accept the token, because it is taken
// for a bound one.
func CheckToken(token string) error {
	if strings.HasPrefix(token, boundPrefix) {
		return fmt.Errorf("a token begins with %q, as only those do that processes send", boundPrefix)
	}
	return nil
}

// Bind returns what is sent in place of a token to a node at an address that another
// process has named: proof of the token that only a node with this advertised
// address accepts. Neither the token nor a proof for another address follows from it.
// The result is "" for "".
func Bind(token, address string) string {
	if token == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("conclave token for " + address))
	return boundPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// TokenFor returns what a process sends to an address: the token itself to those that
// it was given, and the bound token to any other.
func TokenFor(token, address string, given []string) string {
	if slices.Contains(given, address) {
		return token
	}
	return Bind(token, address)
}

// find returns the entry of a credential that was sent to the node at an address: a
// token, or one that is bound to the address. It compares with every token, so that
// its time reveals nothing about them.
func (s *Set) find(credential, address string) (found entry, ok bool) {
	bound := strings.HasPrefix(credential, boundPrefix)
	digest := sha256.Sum256([]byte(credential))
	for _, e := range s.entries {
		want := e.digest
		if bound {
			want = sha256.Sum256([]byte(Bind(e.token, address)))
		}
		if subtle.ConstantTimeCompare(digest[:], want[:]) == 1 {
			found, ok = e, true
		}
	}
	return found, ok
}
