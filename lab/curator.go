package lab

import (
	"context"
	"time"

	"conclave/lab/article004/zklatch"
)

var curatorRule = Rule{
	Name: "curator", From: "article 004: Curator's LeaderLatch (40 s is ZooKeeper's maximum); lab/article004/zklatch, Latch",
	About:    "The first in a queue of sequential ephemeral nodes leads, as long as its connection is not broken.",
	Weakness: "A leadership has no number: a write that was sent before the session ended is not refused.",
	Own:      Times{Lease: 40 * time.Second, Beat: 40 * time.Second / 3, Check: 40 * time.Second / 3},
	start: func(env *environment) (candidate, error) {
		client, err := zklatch.Dial(zklatch.Config{
			Servers: []string{env.ThroughTree}, Timeout: env.Times.Lease, Dial: env.dial,
		})
		if err != nil {
			return candidate{}, err
		}
		latch := client.Latch("/"+env.Lab, env.ID().String())
		latch.Listen(zklatch.Listener{
			IsLeader:  func() { env.turns.Add(1); env.perceived.lead(0, time.Time{}) },
			NotLeader: func() { env.turns.Add(1); env.perceived.leave("the latch lost its leadership") },
		})
		c := env.loops(func(ctx context.Context) {
			_ = latch.Start() // cannot fail: it is new
			<-ctx.Done()
		}, func(ctx context.Context) error {
			env.perceived.leave("closed")
			latch.Close(ctx, zklatch.Silent) // deletes this candidate's node, which wakes the next waiter
			client.Close()
			return nil
		})
		c.leading = func() (uint64, bool) {
			number, ok := env.perceived.leading()
			return number, ok && latch.HasLeadership()
		}
		c.cost = func() (statements, turns uint64) { // the latch sleeps until a watch fires: a change is a turn
			return client.Requests(), env.turns.Load()
		}
		return c, nil
	},
}
