package conclavetest_test

import (
	"fmt"
	"testing"

	"conclave"
	"conclave/client"
	"conclave/client/conclavetest"
)

// t is that of the test.
var t *testing.T

// A program that looks its database up, and keeps what it has found while the registry is
// away.
func Example() {
	c := conclavetest.Start(t)
	withdraw := c.Publish(t, "shop.database", "10.0.0.1:3306")

	found := make(chan []string, 8) // what the program under test sees
	_, err := c.Client(t).Subscribe("shop.database", client.OnPush(func(d conclave.Datum) { found <- d.Values }))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(<-found)

	c.KillLeader(t)
	withdraw()
	fmt.Println(<-found)
	c.Away(t, func() { fmt.Println(len(found), "changes while the registry is away") })
}

// Clients go to another session when theirs is killed.
func ExampleCluster_KillSession() {
	c := conclavetest.Start(t)
	app := c.Client(t)
	c.KillSession(t, c.SessionOf(t, app))
	c.Restart(t) // what was killed runs again
}

// Of three metas one may be killed after another.
func ExampleSize() {
	c := conclavetest.Start(t, conclavetest.Size(3, 2, 2), conclavetest.Logged(t))
	c.KillLeader(t)
	c.Restart(t)
}
