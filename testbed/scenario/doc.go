// Package scenario describes faults in a language of its own and plays them on a
// testbed.Cluster: files are parsed, or storms are made from a seed; a player
// carries the steps out, records what happens, and gives the history to the
// checkers of package check.
//
// # The language
//
// The folder examples has three scenarios that explain themselves.
//
// A file holds one scenario, a line one action or expectation. Times are
// counted from the moment at which the cluster is at rest. The comment at the
// top describes the scenario.
//
//	# The leader is killed while it is slow to reach the database.
//	cluster 3 meta 2 session 3 data 16 slots 2 replicas
//	takeover lease                         or witness, the default
//	lease 3s
//	only in the bubble                     where a machine would be too small
//	budget session 20us a message 10ns a byte queue 1000000
//	clients 4 names 8 publishers 3 bytes 100 every 300ms replace 2s guests 3s readers 4s rolling 5s bulk 100 http 2 sofa 4
//	at 2s slow leader from db by 300ms jitter 50ms for 2lease
//	at 3s kill it for 5s
//	at 3s expect new leader within lease+1s
//	every 2s from 10s to 20s reset links of a data to session-1
//	until 25s
//	figure leaderless
//
// A longer scenario has scenes, one after the other:
//
//	scene KILL -9 THE LEADER
//	# What happens, for the narrator.
//	look at election list
//	at 0s kill leader
//	at 0s expect new leader within 5s
//	then
//	at 0s start it
//	until 4s
//
// Times in a scene count from its beginning. It ends when its time has passed
// (until, or its last line) and each of its expectations is decided; then the
// next one begins. After "then" the scene continues in the same way, with times
// of its own: what ends a fault belongs there if something must have happened
// first. An action whose node does not exist fails a scene; elsewhere it is left
// out. "look at" names a command of the tool that shows the same.
//
// The actions are in testbed.Forms, the expectations in expect.go; Grammar lists both
// after this text, with the points of the code and the figures.
//
// STATEMENTS are the kinds of statements that the database refuses: statements
// (all of them), writes, elections (of the lock row), decisions (of the leader), or
// the leader's decisions of one kind: blacklist, config, freeze, members, switches,
// table.
//
// An operator's command can end with "at once", which sends it to all nodes
// that WHO selects at the same moment, and with "and be refused", which demands
// that the leader refuses it, also because the database does, or "and be accepted".
// WHO and WHOM are selectors:
//
//	meta-1  session-2  data-3  client-4  db      by name
//	leader                                       the node that leads now
//	follower                                     a meta that does not lead
//	a meta, a session, a data, a client          any that runs
//	owner of SLOT                                the data node that leads a slot
//	session of CLIENT                            a session that the client is connected to
//	metas, sessions, datas, clients, everyone    all of them
//	half of metas|sessions|datas                 half of them, rounded up
//	it                                           what the last selector chose
//	the dead                                     the nodes that were killed or have stopped
//	the rest                                     all nodes but what "it" is
//
// The clients of "clients N" stay: they publish, change and replace. With
// "publishers N" as many of them publish under each name, instead of two, and with
// "bytes N" their values are at least as long. With
// "guests D" another client arrives about every D and publishes; a few seconds
// later it withdraws and leaves, leaves without withdrawing, or is killed. With
// "readers D" a client arrives that subscribes to everything, has its first
// lists recorded, and leaves. Both connect to any session. With "rolling D" an
// application is updated about every D: its client leaves with a linger, and another
// one registers within that (only simulated clients). With "bulk N" each
// client that stays also has N registrations that never change and that no client
// reads: it replays them when it reconnects. With "http N" every N-th client of each kind
// has no SDK: it registers and reads by HTTP (docs/http.md). With "sofa N" the first and every
// N-th one after it is a client of SOFARegistry (docs/sofa.md), if it has none by HTTP.
//
// Computing takes no time in the bubble, so no queue forms there, unless a role
// has a budget: meta, session, data, db or client. Each of its nodes then has one
// processor, on which its connections take turns of 10 ms. A message that is
// received or sent takes the given time and more for each of its bytes. While BYTES
// (0 or left out: any number) wait at a node, what follows waits at its senders.
// Only simulated nodes have budgets. A burst is load, on any cluster: each client that
// stays also changes values of its own, N times as often as "every" says, and
// does not wait until they are stored; or it makes N new registrations as fast as
// it can, which stay. L23 and L24 check what is left of a burst when it has ended.
//
// Every scenario ends in the same way. All faults are healed. Within one lease
// there must be a leader; within ten seconds more the slots must be spread
// evenly and every subscriber must see exactly what live clients publish. A
// list that the push guard may hold back at that time is checked again when the
// guard's time has ended. Finally a new client reads everything.
//
// # Storms
//
// Storm makes a scenario from a seed, of the actions that are possible
// with the Capabilities of the cluster where it is to be played. The seed draws a theme (themes.go): single
// faults with at most one session in trouble at a time; single faults and
// episodes; outages of one or two whole roles, shorter and longer than each
// grace; drains while a node is paused; commands of an operator at any moment;
// clients that withdraw and leave while copies are lost. In every fourth storm the
// database refuses statements for a while. About every seventh cuts a session off
// from everything but its clients, or a data node from all sessions. In every sixth an
// application is updated all the time; about every eighth resets a client's connections
// while a session is paused. Every eighth storm of the
// simulator also gives its nodes budgets, and ends with a burst of 10 to 100 times
// what the sessions serve, for L23 and L24. Shrink reduces a
// failing scenario until no step can be removed.
//
// Storms makes short storms in which nothing is lost that ARCHITECTURE.md
// guarantees, for an observer that excuses nothing (package soak).
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - library.go: the scenarios that are built in.
//   - grammar.go: the language as a text.
//   - lossless.go: storms in which nothing is lost.
//   - storm.go: scenarios that are drawn, and the search for a shorter one.
//   - themes.go: what storms draw.
//   - parse.go: the language.
//   - parse_action.go: its actions.
//   - play.go: one run of a scenario.
//   - traffic.go: the clients when no scenario is played.
//   - perform.go: the player carries out actions, and heals.
//   - compare.go: the player looks at the copies of slots.
//   - expect.go: the player decides expectations.
//   - player.go: what the player knows.
//   - narrator.go: who follows a run.
//   - timeline.go: a narrator that prints what is done and what changes.
//   - validate.go: what cannot be played.
//   - burst.go: bursts of load, and what they do to the nodes.
//   - load.go: the clients of a run.
//   - visit.go: the clients that come and go.
//   - select.go: which nodes a selector selects.
//   - words.go: the words of a line.
//   - scenario.go: a scenario, its lines and its text.
package scenario
