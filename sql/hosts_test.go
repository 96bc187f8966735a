package sql

import (
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpen_SeveralHosts(t *testing.T) {
	for name, c := range map[string]struct{ dsn, addr string }{
		"three":         {"u:pw@tcp(db1:3306,db2:3307,db3:3308)/conclave?tls=true", "tcp(db1:3306,db2:3307,db3:3308)/conclave"},
		"default port":  {"u:pw@tcp(db1,db2)/conclave", "tcp(db1:3306,db2:3306)/conclave"},
		"spaces":        {"u:pw@tcp(db1:1, db2:2)/conclave", "tcp(db1:1,db2:2)/conclave"},
		"IPv6":          {"u:pw@tcp([::1]:1,[::2]:2)/conclave", "tcp([::1]:1,[::2]:2)/conclave"},
		"odd password":  {"u:(a,b)/@tcp(a,b)/@tcp(db1:1,db2:2)/conclave", "tcp(db1:1,db2:2)/conclave"},
		"one, as ever":  {"u:pw@tcp(db1:3306)/conclave", "tcp(db1:3306)/conclave"},
		"one, no port":  {"u:pw@tcp(db1)/conclave", "tcp(db1:3306)/conclave"},
		"a unix socket": {"u:pw@unix(/run/a,b.sock)/conclave", ""},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(c.dsn, Options{})
			if c.addr == "" {
				require.ErrorIs(t, err, ErrBadDSN)
				return
			}
			require.NoError(t, err)
			defer db.Close()
			assert.Equal(t, c.addr, db.Addr())
			assert.Equal(t, len(db.configs) > 1, db.hosts != nil, "one host is not asked what it is")
			for _, config := range db.configs {
				if config.TLS != nil {
					assert.Contains(t, config.Addr, config.TLS.ServerName, "each host has its own name in its certificate")
				}
			}
		})
	}
}

func TestOpen_BadListOfHosts(t *testing.T) {
	const secret = "s3cr3t"
	for name, c := range map[string]struct{ hosts, want string }{
		"empty host":  {"tcp(db1:3306,,db3:3306)", "host 2 of several is not host:port"},
		"no port":     {"tcp(db1:3306,db2:)", "host 2 of several is not host:port"},
		"no host":     {"tcp(:3306,db2:3306)", "host 1 of several is not host:port"},
		"bare IPv6":   {"tcp(::1,::2)", "host 1 of several is not host:port"},
		"twice":       {"tcp(db1,db1:3306)", "host 2 is in the list twice"},
		"a socket":    {"unix(/a,/b)", "several hosts need the network tcp"},
		"ten of them": {"tcp(a,b,c,d,e,f,g,h,i,j)", "10 hosts, at most 9"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open("u:"+secret+"@"+c.hosts+"/conclave", Options{})
			require.ErrorIs(t, err, ErrBadDSN)
			assert.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), secret)
		})
	}
}

// in returns a group's member with the uuid "me" and others.
func in(mode, readOnly string, group ...groupMember) member {
	return member{kind: GroupReplication, group: group, variables: map[string]string{
		"group_replication_single_primary_mode": mode, "super_read_only": readOnly, "server_uuid": "me"}}
}

func TestMember_WritableInGroup(t *testing.T) {
	me := groupMember{"me", "ONLINE", "PRIMARY"}
	up, gone := groupMember{"a", "ONLINE", "SECONDARY"}, groupMember{"b", "UNREACHABLE", "SECONDARY"}
	for name, c := range map[string]struct {
		m    member
		want string // empty: writable
	}{
		"primary of three":               {in("ON", "OFF", me, up, up), ""},
		"one is lost":                    {in("ON", "OFF", me, up, gone), ""},
		"two are lost":                   {in("ON", "OFF", me, gone, gone), "no quorum: it reaches 1 of 3"},
		"half of four":                   {in("ON", "OFF", me, up, gone, gone), "no quorum: it reaches 2 of 4"},
		"secondary":                      {in("ON", "ON", groupMember{"me", "ONLINE", "SECONDARY"}, up, up), "it is a secondary"},
		"recovering":                     {in("ON", "OFF", groupMember{"me", "RECOVERING", "PRIMARY"}, up, up), "it is RECOVERING"},
		"has left":                       {in("ON", "OFF", groupMember{"me", "ERROR", "PRIMARY"}), "it is ERROR"},
		"started without the group":      {in("ON", "OFF", groupMember{"me", "OFFLINE", ""}), "it is OFFLINE"},
		"shows no member":                {in("ON", "OFF"), "it shows no member"},
		"elected, not yet writable":      {in("ON", "ON", me, up, up), "still read-only"},
		"one of several primaries":       {in("OFF", "OFF", me, up, up), "single_primary_mode is OFF"},
		"neither group nor cluster":      {member{}, "no replication group and in no Galera cluster"},
		"a group of itself, forced":      {in("ON", "OFF", me), "has 1 of the 3 hosts"},
		"unreachable, one is RECOVERING": {in("ON", "OFF", me, groupMember{"a", "RECOVERING", "SECONDARY"}, gone), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.m.writable(3)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, name == "one of several primaries", errors.Is(err, ErrUnsuitable))
		})
	}
}

func TestMember_WritableInGalera(t *testing.T) {
	for name, c := range map[string]struct{ ready, status, state, options, want string }{
		"takes part":                     {"ON", "Primary", "4", "pc.ignore_sb = false; pc.ignore_quorum = false", ""},
		"cut off":                        {"OFF", "non-Primary", "0", "", "wsrep_ready is OFF"},
		"not primary":                    {"ON", "non-Primary", "4", "", "wsrep_cluster_status is non-Primary"},
		"a donor":                        {"ON", "Primary", "2", "", "wsrep_local_state is 2"},
		"ignores splits":                 {"ON", "Primary", "4", "a = b; pc.ignore_sb = true", "pc.ignore_sb is true"},
		"ignores splits, in other words": {"ON", "Primary", "4", "pc.ignore_sb = YES", "pc.ignore_sb is yes"},
		"needs no quorum":                {"ON", "Primary", "4", "pc.ignore_quorum = TRUE; x = y", "pc.ignore_quorum is true"},
		"without a status":               {"", "", "", "", "wsrep_ready is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			m := member{kind: Galera, variables: map[string]string{"wsrep_provider_options": c.options},
				status: map[string]string{"wsrep_ready": c.ready, "wsrep_cluster_status": c.status, "wsrep_local_state": c.state, "wsrep_cluster_size": "2"}}
			if c.want == "" {
				require.NoError(t, m.writable(3))
				return
			}
			require.ErrorContains(t, m.writable(3), c.want)
			assert.Equal(t, c.options != "", errors.Is(m.writable(3), ErrUnsuitable))
		})
	}
}

func TestMember_AdviceAndSettings(t *testing.T) {
	m := in("ON", "OFF", groupMember{"me", "ONLINE", "PRIMARY"})
	m.variables["group_replication_consistency"] = "EVENTUAL"
	m.variables["group_replication_unreachable_majority_timeout"] = "0"
	assert.Len(t, m.advice(3), 3)
	assert.Equal(t, []setting{{"group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER'", true}}, m.settings())
	m.variables["group_replication_consistency"] = "AFTER"
	assert.Empty(t, m.settings(), "what is stronger stays")
	assert.Contains(t, m.advice(0)[0], "names 0 of 1 members")
	g := member{kind: Galera, status: map[string]string{"wsrep_cluster_size": "2"}}
	assert.Len(t, g.advice(3), 1)
	assert.Len(t, g.advice(1), 2)
	assert.Contains(t, g.settings(), setting{"wsrep_sync_wait = 7", true})
}

// Each half of a cluster that was split by force has a quorum of its own.
func TestMember_MinorityOfTheHostsIsRefused(t *testing.T) {
	m := member{kind: Galera, variables: map[string]string{},
		status: map[string]string{"wsrep_ready": "ON", "wsrep_cluster_status": "Primary", "wsrep_local_state": "4", "wsrep_cluster_size": "1"}}
	assert.ErrorContains(t, m.writable(3), "has 1 of the 3 hosts in the DSN")
	m.status["wsrep_cluster_size"] = "2"
	assert.NoError(t, m.writable(3))
	assert.Error(t, m.writable(4))
}

// An operator who makes a node of a cluster read-only wants another one to be written to.
func TestMember_ReadOnlyIsNotTheWriter(t *testing.T) {
	node := member{kind: Galera, variables: map[string]string{"read_only": "ON"},
		status: map[string]string{"wsrep_ready": "ON", "wsrep_cluster_status": "Primary", "wsrep_local_state": "4", "wsrep_cluster_size": "3"}}
	primary := in("ON", "OFF", groupMember{"me", "ONLINE", "PRIMARY"}, groupMember{"a", "ONLINE", "SECONDARY"}, groupMember{"b", "ONLINE", "SECONDARY"})
	primary.variables["read_only"] = "ON"
	for _, m := range []member{node, primary} {
		assert.ErrorContains(t, m.writable(3), "read_only = ON")
		m.variables["read_only"] = "OFF"
		assert.NoError(t, m.writable(3))
	}
}

func TestHosts_Order(t *testing.T) {
	now := time.Now()
	h := newHosts([]string{"a", "b", "c"}, time.Second)
	assert.Equal(t, []int{0, 1, 2}, h.order(now), "that of the DSN")
	h.found(1, member{kind: GroupReplication})
	assert.Equal(t, []int{1, 0, 2}, h.order(now), "the last primary first")
	h.unreachable(1, now)
	assert.Equal(t, []int{0, 2, 1}, h.order(now), "what did not answer last")
	assert.Equal(t, []int{1, 0, 2}, h.order(now.Add(time.Second)))
	h.found(1, member{kind: Galera})
	assert.Equal(t, []int{0, 1, 2}, h.order(now), "a cluster has no primary: all processes agree on the first")
}

func TestHosts_FormerWriterIsLeft(t *testing.T) {
	h := newHosts([]string{"a", "b"}, time.Second)
	assert.Empty(t, h.found(0, member{kind: GroupReplication}))
	p := &Pinned{}
	require.True(t, h.watch(p, 0))
	assert.Empty(t, h.found(0, member{kind: GroupReplication}), "the writer is the same")
	assert.Equal(t, []*Pinned{p}, h.found(1, member{kind: GroupReplication}))
	assert.Empty(t, h.found(1, member{kind: GroupReplication}), "it is ended once")
	assert.False(t, h.watch(p, 0), "too late: the writer is another one")
	assert.False(t, h.isWriter(0))
	assert.True(t, h.isWriter(1))
}

func TestHosts_NoneIsUsable(t *testing.T) {
	h := newHosts([]string{"a", "b"}, time.Second)
	denied := &mysql.MySQLError{Number: 1045}
	assert.ErrorIs(t, classify(h.none([]error{denied, denied})), ErrRefused)
	assert.ErrorIs(t, classify(h.none([]error{denied, errors.New("is a secondary")})), ErrUnavailable)
	assert.ErrorIs(t, h.none([]error{errors.New("x"), ErrUnsuitable}), ErrUnsuitable)
}

func TestClassify_GroupsRefusalIsNoAnswer(t *testing.T) {
	for _, number := range []uint16{3100, 3101, 3032, 1047} {
		err := &mysql.MySQLError{Number: number}
		assert.ErrorIs(t, classify(err), ErrUnavailable)
		assert.NotZero(t, meaningOf(err)&outOfGroup, "the connection is not used again")
	}
	assert.Zero(t, meaningOf(&mysql.MySQLError{Number: 1213})&outOfGroup)

	for _, number := range []uint16{1045, 1130, 1698, 1862, 3118} {
		assert.ErrorIs(t, classify(&mysql.MySQLError{Number: number, SQLState: [5]byte{'4', '2', '0', '0', '0'}}), ErrRefused, "%d", number)
	}
}

func TestHosts_OfADSN(t *testing.T) {
	network, hosts, err := Hosts("u:p@tcp(db1,db2:3307)/d?tls=skip-verify")
	require.NoError(t, err)
	assert.Equal(t, "tcp", network)
	assert.Equal(t, []string{"db1:3306", "db2:3307"}, hosts)
	_, _, err = Hosts("u:secret@tcp(db1,db1)/d")
	require.ErrorIs(t, err, ErrBadDSN)
	assert.NotContains(t, err.Error(), "secret")
}

func TestClassify_AnswerSaysWhetherARetryHelps(t *testing.T) {
	for _, c := range []struct {
		want    error
		answers map[uint16]string // with their SQLSTATEs
	}{
		{ErrTooLarge, map[uint16]string{1153: "08S01"}},
		{ErrStatement, map[uint16]string{
			1064: "42000", 1142: "42000", 1146: "42S02", 1054: "42S22", 1048: "23000", 1062: "23000", 1264: "22003", 1406: "22001", 3140: "22032",
			1366: "HY000", 1364: "HY000", 1265: "01000", 3819: "HY000", 4025: "23000",
		}},
		{ErrRefused, map[uint16]string{1044: "42000", 1045: "28000", 1049: "42000", 1820: "HY000"}},
		{ErrUnavailable, map[uint16]string{
			1203: "42000", 1226: "42000", 1040: "08004", 1205: "HY000", 1213: "40001", 1021: "HY000", 1180: "HY000", 1317: "70100",
			1290: "HY000", 1836: "HY000", 1792: "25006", 1036: "HY000", 1223: "HY000",
			3796: "HY000", 3797: "HY000", 3798: "HY000", 3799: "HY000", 3168: "HY000", 3169: "HY000", 4031: "HY000",
			2003: "HY000", 2006: "HY000", 2013: "HY000", 2999: "42000", 9001: "HY000", 1105: "HY000", 65000: "HY000", 1412: "HY000",
		}},
	} {
		for number, state := range c.answers {
			for _, state := range []string{state, ""} {
				if state == "" && (number == 1264 || number == 3140 || number == 4025) {
					continue // known by their classes
				}
				answer := &mysql.MySQLError{Number: number}
				copy(answer.SQLState[:], state)
				err := classify(answer)
				for _, kind := range []error{ErrStatement, ErrTooLarge, ErrRefused, ErrUnavailable} {
					assert.Equal(t, errors.Is(c.want, kind), errors.Is(err, kind), "%d %q: %v", number, state, kind)
				}
			}
		}
	}
	assert.ErrorIs(t, classify(mysql.ErrPktTooLarge), ErrTooLarge)
	assert.NotErrorIs(t, classify(mysql.ErrMalformPkt), ErrStatement, "no answer")
}
