package rights

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

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
