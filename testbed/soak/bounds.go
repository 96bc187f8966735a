package soak

import (
	"time"

	"conclave/testbed/scenario"
)

// The leases and graces of the processes as this package starts them. Package
// scenario draws outages around them.
const (
	clientLease  = 5 * time.Second
	sessionGrace = 15 * time.Second
	guardGrace   = 5 * time.Second // how long the push guard may hold above the session grace
	massDelay    = clientLease     // how much longer a session keeps the registrations of many clients that are gone at once (docs/adr/0071)
)

// Bounds on time. None of them measures speed: each is a multiple of what the
// cluster needs on a machine with nothing else to do.
const (
	// leaderBound: an election takes one lease (3 s) at worst once the metas
	// and the database are back; MySQL in a container takes up to 30 s to
	// recover first.
	leaderBound = 60 * time.Second

	// servedBound: slots are to be even within ten seconds (I10). A node that
	// was just started must join first, and a slot whose copies are all lost
	// waits for two client leases, or three if many clients were gone at once.
	servedBound = 120 * time.Second

	// agreeBound: what a client that died had published is shown for the
	// session grace plus the guard's hold, at most twice in a row (31.5 s was
	// measured), and a session that comes back settles for one grace more.
	agreeBound = 120 * time.Second

	// storedBound: a registration on a healthy cluster is stored within
	// milliseconds; a client that lost its session meanwhile reconnects within
	// two seconds.
	storedBound = 60 * time.Second

	// firstListAge: a subscriber that starts must see in its first list
	// everything that was stored at least this long before it started, and
	// nothing whose withdrawal was acknowledged as long ago. A session that was
	// paused may answer from what it read before, so this is the longest outage
	// plus two session leases.
	firstListAge = scenario.LongestOutage + 10*time.Second

	// lateAge: the same for the pushes of a subscriber that has been subscribed
	// for longer. Its session may hold a push back (grace plus guard) after an
	// outage.
	lateAge = scenario.LongestOutage + 2*(sessionGrace+guardGrace)

	// lostGrace: after a loss of all data nodes and all sessions, slots are
	// served unconfirmed for a session grace from the moment at which they are
	// served, which is within two client leases of the first session, and massDelay.
	lostGrace = sessionGrace + 2*clientLease + massDelay + guardGrace

	// serveBound: how long an accepted operator command may leave the cluster
	// without an answer. A drained session waits for its clients to move; a
	// planned hand-over is one round trip per slot.
	serveBound = 30 * time.Second

	// endBound: a process that got SIGTERM hands over, waits at most its own
	// stop deadline (15 s by default), and exits.
	endBound = 20 * time.Second

	// quietTime is the minimum rest between two episodes, so that a failure
	// which only shows after the last fault is found in the episode that caused
	// it.
	quietTime = 2 * time.Second
)

// Memory. Raced builds get more: the race detector's own memory grows with the
// number of goroutines, locks and addresses ever used. Under this load a raced
// session's resident memory rose from 93 to 106 MB in a minute, while its heap
// in use (3 MB), what the Go runtime had from the system (17 MB), its objects
// (18,000) and its goroutines (about 100) stayed as they were; without the
// detector it stays at 20 MB.
const (
	slopeWarning = 2 << 20 // bytes a minute: reported, but no failure
	memoryBound  = 1 << 30 // bytes: a node of this load uses 30 to 60 MB
	racedFactor  = 4
	slopeMinimum = 2 * time.Minute // shorter lives give no meaningful slope
	slopeSkip    = time.Minute     // warm-up: caches and pools fill
)
