package testbed

import (
	"slices"
	"strings"
	"time"
)

// Budget is what the processor of a simulated node can do, whose connections take
// turns. The zero value means that computing takes no time.
type Budget struct {
	Message time.Duration // to receive or to send one message
	Byte    time.Duration // for each of its bytes
	Queue   int           // bytes that may wait to be served, until more waits at its senders; 0: any number
}

// Budgets are the budgets of the nodes of each role, of the database, and of the
// clients.
type Budgets struct{ Meta, Session, Data, Database, Client Budget }

// BudgetRoles are the roles that can have a budget, in the order in which they
// are written.
var BudgetRoles = []string{"meta", "session", "data", Database, "client"}

// Of returns the budget of a role, to be read or set, or nil if there is no such
// role.
func (b *Budgets) Of(role string) *Budget {
	if i := slices.Index(BudgetRoles, role); i >= 0 {
		return []*Budget{&b.Meta, &b.Session, &b.Data, &b.Database, &b.Client}[i]
	}
	return nil
}

// OfHost returns the budget of a host by its name: session-2 is a session. Hosts
// of other names have none.
func (b Budgets) OfHost(host string) Budget {
	role, _, _ := strings.Cut(host, "-")
	if of := b.Of(role); of != nil {
		return *of
	}
	return Budget{}
}

// Usage is what the processor of a node with a budget had to do in some time.
type Usage struct {
	Node    string
	Offered time.Duration // how long it takes to serve what arrived and to send what was sent
	Waited  time.Duration // the longest time from the arrival of bytes until they were served
	Queued  int           // the most bytes that waited
	Blocked int           // segments that waited at their senders until others were served
}
