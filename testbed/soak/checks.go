package soak

import (
	"time"

	"conclave/testbed/check"
	"conclave/testbed/check/blackbox"
	"conclave/testbed/scenario"
)

// What a run checks besides what the oracle sees at its clients.
const (
	checkServes  blackbox.Check = "an accepted operator command leaves a cluster that serves"
	checkHeals   blackbox.Check = "every fault begins and is ended, and every operator command is taken back"
	checkLeader  blackbox.Check = "after healing there is a leader"
	checkServed  blackbox.Check = "after healing every node is ready and every slot is served and stable"
	checkStored  blackbox.Check = "after healing registrations are stored, changed, read and withdrawn"
	checkHeard   blackbox.Check = "after healing every change and every withdrawal is acknowledged"
	checkAgree   blackbox.Check = "after healing every subscriber sees exactly what is published, all at one moment"
	checkProcess blackbox.Check = "no process ends by itself"
	checkExit    blackbox.Check = "a clean stop ends in time, with exit code 0"
	checkLog     blackbox.Check = "no log has a data race, a panic or a fatal error"
	checkMemory  blackbox.Check = "no process grows above the memory bound"
)

var checks = []blackbox.Check{checkServes, checkHeals, checkLeader, checkServed, checkStored, checkHeard, checkAgree, checkProcess, checkExit, checkLog, checkMemory}

// Bounds on time. None of them measures speed: each is a multiple of what the cluster
// needs on a machine with nothing else to do.
const (
	// An election takes one lease (3 s) at worst once the metas and the database are
	// back; MySQL in a container takes up to 30 s to recover first.
	leaderBound = 60 * time.Second

	// Slots are to be even within ten seconds (I10). A node that was just started must
	// join first, and a slot whose copies are all lost waits for two client leases, or
	// three if many clients were gone at once.
	servedBound = 120 * time.Second

	// A registration is stored within milliseconds; a client that lost its session
	// meanwhile reconnects within two seconds.
	storedBound = 60 * time.Second

	// What a client that died had published is shown for the session grace plus the
	// guard's hold, at most twice in a row (31.5 s was measured), and a session that
	// comes back settles for one grace more.
	agreeBound = 120 * time.Second

	// One action: MySQL in a container takes up to 30 s to start, and a command is sent
	// to one meta after the other.
	stepBound = time.Minute

	// A drained session waits for its clients to move; a planned hand-over is one round
	// trip per slot.
	serveBound = 30 * time.Second

	// A process that got SIGTERM hands over, waits at most its own stop deadline (15 s
	// by default), and exits. The cluster stops one role after the other.
	endBound  = 20 * time.Second
	downBound = 2 * time.Minute

	// The minimum rest between two episodes: a failure that only shows after the last
	// fault is found in the episode that caused it.
	quietTime = 2 * time.Second
)

// bounds are those of the oracle. A session that was paused may answer from what it
// read before: the longest outage plus two session leases. It may hold a later push
// back for grace and guard. After a loss, slots are served unconfirmed for a grace from
// the moment at which they are served, which is within two client leases (5 s) of the
// first session, and one more if many clients were gone at once.
var bounds = blackbox.Bounds{
	First: scenario.LongestOutage + 10*time.Second,
	Late:  scenario.LongestOutage + 2*(check.SessionGrace+check.GuardGrace),
	Lost:  check.SessionGrace + 3*check.ClientLease + check.GuardGrace,
}

// Resident memory of a node. Under this load it is 20 to 60 MB; builds with the race
// detector have more, which grows with the number of goroutines, locks and addresses
// ever used.
const (
	memoryBound = 1024 // MB
	racedFactor = 4
	slopeBound  = 2           // MB a minute: more is reported, and is no violation
	warmUp      = time.Minute // caches and pools fill; then as much again is needed for a slope
)
