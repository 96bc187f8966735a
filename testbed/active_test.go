package testbed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed"
)

func TestActiveFaults_ListsFaultsUntilTheyEnd(t *testing.T) {
	var u testbed.ActiveFaults
	list := func() (out []string) {
		for _, a := range u.List() {
			out = append(out, a.String())
		}
		return out
	}
	for _, a := range []testbed.Action{
		{Verb: testbed.Kill, Node: "client-1"}, {Verb: testbed.Resign, Node: "meta-1"}, {Verb: testbed.Start, Node: "data-9"}, // none of these lasts
		{Verb: testbed.Kill, Node: "data-1"}, {Verb: testbed.Skew, Node: "db", By: time.Hour}, {Verb: testbed.Cut, Node: "meta-1", Peer: "db"}, {Verb: testbed.Stop, Node: "data-1"},
	} {
		u.Note(a)
	}
	assert.Equal(t, []string{"skew clock of db by 1h0m0s", "cut meta-1 from db", "stop data-1"}, list())
	for _, a := range []testbed.Action{{Verb: testbed.Start, Node: "data-1"}, {Verb: testbed.Skew, Node: "db"}} {
		u.Note(a)
	}
	assert.Equal(t, []string{"cut meta-1 from db"}, list())
}
