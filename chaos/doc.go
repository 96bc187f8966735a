// Package chaos is the proving ground: stories of what is done to a cluster, a
// player that tells them, a history of what happened, and judges that say whether
// it can all be true.
//
// # The way of a story
//
//	scenarios/*.txt, or Storm(seed)
//	      |  Parse
//	      v
//	  Scenario ----> player ----> Driver: bubble (package sim), processes, containers
//	                   |             |
//	                   |   faults    |  claims of nodes (internal/trace), pushes to clients
//	                   v             v
//	                 Recorder --> History --> judges: I1..I13, L1..L19, P1, P2 --> Verdicts
//	                                    \---> gauges ----------------------------> Figures
//
// The parts know nothing of each other but their data. A Driver judges nothing; a
// judge sees no cluster; the same file is played by every driver.
//
// # The language
//
// One story to a file, one thing to a line, times counted from the moment at
// which the cluster is at rest. The comment on top says what it is about.
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
// What can be done: kill, stop, start, pause, resume, twin; start X at a wrong
// address; close port of X, open port of X; cut X from Y, cut one
// way X -> Y, mend X from Y, slow X from Y by D jitter D rate BYTES, reset links
// of X to Y, half-open links of X to Y, lose the next answer of X to Y; skew clock
// of X by D, step database clock by D, set clock of X to TIME; hold X at POINT,
// hold one X at POINT (the next that comes: those behind overtake it), release X
// at POINT; resign, quit, join, forbid, allow X (the first two and forbid also "by
// force"); freeze, unfreeze; switch KEY to VALUE; announce stop to X; heal all. An
// operator's act can be done to several nodes "at once", and "and be refused"
// demands that the leader refuses it. Most can end with "for D". Whom: see select.go; what can be expected: see expect.go;
// where nodes can be held: trace.Points; figures: FigureNames.
//
// Clients stay, publish, change and replace. With "guests D" another one comes
// about every D, publishes, and a few seconds later withdraws and leaves, only
// leaves, or dies; with "readers D" one comes that subscribes to everything, has
// its first lists recorded, and leaves. Both connect to any session.
//
// Every story ends alike: all is healed, and within one lease there must be a
// leader, within ten seconds more the slots must be even and every subscriber see
// exactly what live clients publish. A list that the push guard may hold back then is
// looked at once more when the guard's time has ended. A fresh reader then reads
// everything.
//
// # Histories and judges
//
// A History is a list of entries in the order in which they were recorded. The
// claims of one lock come in the order of the facts, because they are made under
// it; between two nodes the order says only what was recorded first. So a judge
// compares within one node, or by epochs, or between the end of one statement and
// the beginning of another, and never takes the order of two nodes' claims for the
// order of the facts.
//
// Every judge is a function over a History that counts what it checked. A judge
// that checked nothing has not acquitted anybody, and reports say so: without
// claims (a cluster that ran before the story did) many have nothing to look at.
// Each has a forged history that it must reject, and one beside it that it must
// take (forge_test.go).
//
//	I1..I13  the invariants of ARCHITECTURE.md
//	L1..L17  the rules that make the Java original lossless
//	L18      copies: at one position of a feed the follower's copy is the leader's
//	L19      what an operator may do leaves a cluster that serves and is led
//	P1       the lock row is a linearizable register with compare-and-swap (porcupine)
//	P2       each subscriber sees each registration as its publisher wrote it, late at most
//
// I7 and L7 compare the pushes of one datum to all subscribers by their versions,
// which only rise: what version 5 shows is in version 6, whoever is pushed it, if
// its client lives and has not withdrawn it; what was withdrawn and is not in
// version 6 is in no later one. A client that no session knows for a client lease
// is not held to be alive, unless no session ran at that time: an outage of all
// sessions, and what its clients need to reconnect, excuses nothing.
//
// Two moments are known in which that cannot hold, and I7 and L7 go by them. While
// no session ran and the copies of a slot were lost with them, the registrations
// were with their clients only: the push guard's rule holds for one session grace.
// And a leader that is lost at about the moment of a session, ahead of every copy,
// takes the last changes with it, until their clients have connected again. The
// player looks at the copies before it kills or suspends a leader, and when the slot
// of one that lives, and that was evicted, is granted to another node.
//
// L18 reads the memory of the data nodes, which the bubble can (Comparer); on
// processes and containers it has nothing to check. L19 looks at times in which
// nothing has failed for a session grace and only an operator acts: every change is
// stored in time, and there is a leader. What a cluster could not survive must have
// been refused.
//
// I13 in particular: for one session incarnation and one datum, the pair (leader
// epoch, version) that was read and believed never falls.
//
// # Storms
//
// Storm makes a story from a seed, of what can be done on the Ground where it is to
// be played. The seed draws a theme (themes.go): single faults, with at most one
// session in trouble at a time; single faults and episodes; a whole role, or two,
// away for less and for more than each grace; drains while a node is suspended; an
// operator who acts at any moment; clients that withdraw and leave while copies are
// lost. Shrink takes a failing story apart until nothing can be left out.
//
// # What is not guaranteed
//
//   - That a story without violations is a proof: it is one run.
//   - Clocks that run at another speed, on processes and containers. (The bubble
//     gives each process its own drift.)
//   - Faults of the database's disk, and two databases that both take writes.
package chaos
