// Package chaos tests a cluster under faults. A scenario describes the faults,
// a player carries them out, a history records what happened, and checkers
// decide whether the history is consistent with what the cluster promises.
//
// # From a scenario to a result
//
//	scenarios/*.txt, or Storm(seed)
//	      |  Parse
//	      v
//	  Scenario ----> player ----> Driver: bubble (package sim), processes, containers
//	                   |             |
//	                   |   faults    |  events of nodes (internal/trace), pushes to clients
//	                   v             v
//	                 Recorder --> History --> checkers: I1..I13, L1..L19, P1, P2 --> Verdicts
//	                                    \---> gauges ------------------------------> Figures
//
// The parts share nothing but their data. A Driver checks nothing, a checker
// has no access to the cluster, and every driver can play the same file.
//
// # The language
//
// A file holds one scenario, a line one action or expectation. Times are
// counted from the moment at which the cluster is at rest. The comment at the
// top says what the scenario is about.
//
//	# The leader is killed while it is slow to reach the database.
//	cluster 3 meta 2 session 3 data 16 slots 2 replicas
//	takeover lease                         or witness, the default
//	lease 3s
//	only in the bubble                     where a machine would be too small
//	clients 4 names 8 every 300ms replace 2s guests 3s readers 4s
//	at 2s slow leader from db by 300ms jitter 50ms for 2lease
//	at 3s kill it for 5s
//	at 3s expect new leader within lease+1s
//	every 2s from 10s to 20s reset links of a data to session-1
//	until 25s
//	figure leaderless
//
// The actions:
//
//	kill, stop, start, pause, resume, twin X
//	start X at a wrong address
//	close port of X, open port of X
//	cut X from Y                           both directions
//	cut one way X -> Y
//	mend X from Y
//	slow X from Y by D jitter D rate BYTES
//	reset links of X to Y
//	half-open links of X to Y
//	lose the next answer of X to Y
//	skew clock of X by D
//	step database clock by D
//	set clock of X to TIME
//	hold X at POINT
//	hold one X at POINT                    only the next call; later ones overtake it
//	release X at POINT
//	resign, quit, forbid X                 also with "by force"
//	join, allow X
//	freeze, unfreeze
//	switch KEY to VALUE
//	announce stop to X
//	heal all
//
// An operator's command can end with "at once", which sends it to all nodes
// that X selects at the same moment, and with "and be refused", which demands
// that the leader refuses it. Most actions can end with "for D". The selectors
// X and Y are listed in select.go, the expectations in expect.go, the points by
// trace.Points, the figures by FigureNames.
//
// The clients of "clients N" stay: they publish, change and replace. With
// "guests D" another client arrives about every D and publishes; a few seconds
// later it withdraws and leaves, leaves without withdrawing, or is killed. With
// "readers D" a client arrives that subscribes to everything, has its first
// lists recorded, and leaves. Both connect to any session.
//
// Every scenario ends in the same way. All faults are healed. Within one lease
// there must be a leader; within ten seconds more the slots must be spread
// evenly and every subscriber must see exactly what live clients publish. A
// list that the push guard may hold back at that time is checked again when the
// guard's time has ended. Finally a new client reads everything.
//
// # Histories and checkers
//
// A History is a list of entries in the order in which they were recorded. A
// node records an event while it holds the lock that guards the fact, so the
// events of one lock are in the order of the facts. The order of two nodes'
// events says only which was recorded first. A checker therefore compares
// events of one node, or epochs, or the end of one statement with the beginning
// of another; it never takes the order of two nodes' events for the order of
// the facts.
//
// A checker is a function over a History that counts its checks. A checker that
// checked nothing has shown nothing, and reports say so: without events (a
// cluster that ran before the scenario began) many checkers have nothing to
// check. Each has a forged history that it must reject, and a similar one that
// it must accept (forge_test.go).
//
//	I1..I13  the invariants of ARCHITECTURE.md
//	L1..L17  the rules that make the Java original lossless
//	L18      at one position of a feed the follower's copy equals the leader's
//	L19      an operator's commands leave a cluster that serves and has a leader
//	P1       the lock row is a linearizable register with compare-and-swap (porcupine)
//	P2       each subscriber sees each registration as its publisher wrote it, possibly late
//
// I7 and L7 compare the pushes of one datum to all subscribers by their
// versions, which only rise. What version 5 shows is also in version 6, to
// whichever subscriber that is pushed, if its client lives and has not
// withdrawn it; what was withdrawn and is missing in version 6 is in no later
// version. A client that no session has known for a client lease does not count
// as live, unless no session ran at that time: an outage of all sessions, and
// the time that clients need to reconnect after it, excuses nothing.
//
// I7 and L7 allow for two situations in which that cannot hold. If no session
// ran and the copies of a slot were lost meanwhile, only the clients had the
// registrations; then the push guard's rule holds for one session grace. And if
// a leader that is ahead of every copy is lost at about the same moment as a
// session, or before the slot is served again, its last changes are lost until
// their clients have connected again. The same holds if a slot is served without
// a copy within three seconds after a session was lost.
// The player looks at the copies before it kills or pauses a leader, and when
// the slot of a leader that was evicted while it lives is granted to another
// node.
//
// I13 in detail: for one incarnation of a session and one datum, the pair
// (leader epoch, version) that the session has read and accepted never falls.
//
// L18 reads the memory of the data nodes, which only the bubble can (Comparer);
// on processes and containers it has nothing to check. L19 looks at times in
// which nothing has failed for a session grace and only an operator acts: every
// change is stored in time, and there is a leader. A command that the cluster
// could not survive must have been refused.
//
// # Storms
//
// Storm makes a scenario from a seed, of the actions that are possible on the
// Ground where it is to be played. The seed draws a theme (themes.go): single
// faults with at most one session in trouble at a time; single faults and
// episodes; outages of one or two whole roles, shorter and longer than each
// grace; drains while a node is paused; commands of an operator at any moment;
// clients that withdraw and leave while copies are lost. Shrink reduces a
// failing scenario until no step can be removed.
//
// # What is not guaranteed
//
//   - A scenario without violations is no proof: it is one run.
//   - On processes and containers no clock runs at another speed. (The bubble gives
//     each process its own drift.)
//   - Faults of the database's disk, and two databases that both accept writes,
//     are not covered.
package chaos
