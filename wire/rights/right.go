package rights

import (
	"context"
	"fmt"
	"strings"
)

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
