// Package electorfake is an election in memory, for the tests of programs that elect
// with package elector: no database, no network, and the test decides what happens.
// It works in real time and in a bubble of testing/synctest, in which leases pass in no
// time.
//
//	election := electorfake.New()
//	strategy := election.Strategy()             // for elector.Config, instead of termcas.New
//
//	election.Elect("other")                     // another node leads the next term
//	election.Resign()                           // it hands over
//	election.Kill()                             // it dies: its lease runs out
//	back := election.Away(err)                  // the database does not answer
//	wake := strategy.Pause()                    // this node is paused
//	db := election.DB(func(s electorfake.Statement) (int64, error) { ... }) // for fence.Exec and Tx
//
// Several electors may take part, each with a Strategy of its own. The rules are those of
// package termcas without a witness: the lease decides, by each node's own observation.
// They pass the suite of package electortest.
//
// # What is not guaranteed
//
//   - That a program which passes here has fenced its SQL. [Election.DB] executes
//     nothing: it checks the token of each statement as the real fence does, and gives
//     the rest to the test. Whether the statement, joined with the lock row, does what it
//     should is for a test on a real server, with fence.Exec on the same statement.
//   - The real pause. The code of a paused node is not stopped, because it runs in the
//     test's process: its rounds are, and its timers are not. So its Lead learns when
//     its trust ends; a process that is really stopped learns that when it wakes.
//     Election.Elect during a task has the other order: the task still believes that it
//     leads.
//   - The takeover within milliseconds of a leader that was killed.
package electorfake
