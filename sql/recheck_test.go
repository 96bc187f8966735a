package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeServer is a member as its connections see it.
type fakeServer struct {
	fullConn // nil: what a test does not need
	member
	err error // of its answers
}

func (s *fakeServer) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *fakeServer) Driver() driver.Driver                        { return nil }
func (s *fakeServer) IsValid() bool                                { return true }
func (s *fakeServer) Close() error                                 { return nil }

func (s *fakeServer) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	var rows fakeRows
	switch query {
	case memberVariables:
		for name, value := range s.variables {
			rows = append(rows, []string{name, value})
		}
	case memberGalera:
		for name, value := range s.status {
			rows = append(rows, []string{name, value})
		}
	case memberGroup:
		for _, g := range s.group {
			rows = append(rows, []string{g.id, g.state, g.role})
		}
	}
	return &rows, s.err
}

type fakeRows [][]string

func (r *fakeRows) Columns() []string { return make([]string, len((*r)[0])) }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(values []driver.Value) error {
	if len(*r) == 0 {
		return io.EOF
	}
	for i, v := range (*r)[0] {
		values[i] = v
	}
	*r = (*r)[1:]
	return nil
}

// The group shrinks, in order, below a majority of the DSN's hosts: the connection would
// not notice. The others may become a group of their own.
func TestPinned_RecheckNoticesThatTheOthersHaveLeft(t *testing.T) {
	me, other := groupMember{"me", "ONLINE", "PRIMARY"}, groupMember{"a", "ONLINE", "SECONDARY"}
	server := &fakeServer{member: in("ON", "OFF", me, other)}
	server.variables["group_replication_group_name"] = "x"
	p := server.pinned(t)
	require.NoError(t, p.Recheck(t.Context()))
	server.group = server.group[:1]
	require.ErrorContains(t, p.Recheck(t.Context()), "has 1 of the 3 hosts")
	server.err = io.ErrUnexpectedEOF
	require.ErrorIs(t, p.Recheck(t.Context()), ErrUnavailable)
	p.Close()
	require.ErrorIs(t, p.Recheck(t.Context()), ErrUnavailable, "it is closed")
	assert.NoError(t, (&Pinned{db: &DB{}}).Recheck(t.Context()), "one host is not asked")
}

// A node of which another one takes its state is left, but not by who leads through it.
func TestPinned_RecheckAcceptsADonor(t *testing.T) {
	server := &fakeServer{member: member{variables: map[string]string{"wsrep_on": "ON"},
		status: map[string]string{"wsrep_ready": "ON", "wsrep_cluster_status": "Primary", "wsrep_local_state": "2", "wsrep_cluster_size": "2"}}}
	p := server.pinned(t)
	require.NoError(t, p.Recheck(t.Context()))
	server.status["wsrep_local_state"] = "1"
	require.Error(t, p.Recheck(t.Context()))
}

// pinned returns a connection to the first of three hosts.
func (s *fakeServer) pinned(t *testing.T) *Pinned {
	db := &DB{hosts: newHosts([]string{"a", "b", "c"}, time.Second)}
	p := &Pinned{db: db, one: stdsql.OpenDB(&fakeConnector{s, db.hosts})}
	t.Cleanup(func() { p.Close() })
	var err error
	p.conn, err = p.one.Conn(t.Context())
	require.NoError(t, err)
	return p
}

// fakeConnector connects to one member as connectToWriter does.
type fakeConnector struct {
	*fakeServer
	hosts *hosts
}

func (c *fakeConnector) Connect(context.Context) (driver.Conn, error) {
	return &memberConn{fullConn: c.fakeServer, hosts: c.hosts}, nil
}
