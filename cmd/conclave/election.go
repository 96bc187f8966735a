package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave/meta/metaclient"
	"conclave/testbed/outside"
	"conclave/wire"
)

func (a *app) leaderCommand() *cobra.Command {
	var wait time.Duration
	var after uint64
	cmd := &cobra.Command{
		Use: "leader", Short: "Show the meta leader", Args: want(),
		Long: `Show the meta leader. For how long it has led, with --json since when, is by its own
clock; AT of "election list" is by the database's, and differs by milliseconds or more.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			leader, err := a.awaitLeader(cmd.Context(), after, wait)
			if err != nil {
				return err
			}
			return a.show(leader, func(w io.Writer) {
				line(w, "%s leads term %d at %s for %s (%s), beat %d, lease expires in %s",
					leader.Leader, leader.Term, leader.Address, ms(since(leader.Since)), leader.Cause, leader.Beat, ms(leader.LeaseRemainingMs))
			})
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait this long for a leader")
	cmd.Flags().Uint64Var(&after, "after", 0, "require a leader of a term above this one")
	return cmd
}

// awaitLeader returns the leader of a term above after. With a wait it repeats
// the query until there is one.
func (a *app) awaitLeader(ctx context.Context, after uint64, wait time.Duration) (leader metaclient.LeaderInfo, err error) {
	metas, err := a.metaAddresses()
	if err != nil {
		return leader, err
	}
	waiting, cancel := context.WithTimeout(ctx, max(wait, leaderWait))
	defer cancel()
	var last error
	err = outside.Until(waiting, 5*time.Millisecond, func() (bool, error) {
		leader, last = a.askLeader(waiting, metas, after)
		code := wire.CodeOf(last)
		if wait > 0 && (code == wire.CodeNoLeader || code == wire.CodeUnavailable || errors.Is(last, context.DeadlineExceeded)) {
			return false, nil
		}
		return true, last
	})
	if wait > 0 && err != nil && errors.Is(err, waiting.Err()) {
		err = fmt.Errorf("%w: no leader of a term above %d within %s (last error: %w)", errTimedOut, after, wait, last)
	}
	return leader, err
}

// leaderWait is the time limit of one query, because a suspended leader does
// not answer.
const leaderWait = 2 * time.Second

// askLeader asks all metas at once and returns the first answer with a leader
// of a term above after, so that it does not wait for a meta that hangs or lags
// behind.
func (a *app) askLeader(ctx context.Context, metas []string, after uint64) (metaclient.LeaderInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderWait)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type answer struct {
		leader metaclient.LeaderInfo
		err    error
	}
	answers := make(chan answer, len(metas))
	for _, m := range metas {
		admin := a.adminAt([]string{m})
		asking.Go(func() { // ends with ctx at the latest; the channel has room for all answers
			leader, err := admin.Leader(ctx)
			answers <- answer{leader, err}
		})
	}
	var noLeader, other error
	for range metas {
		got := <-answers
		switch {
		case got.err == nil && got.leader.Term > after:
			return got.leader, nil
		case got.err == nil:
			noLeader = wire.Errorf(wire.CodeNoLeader, "%s leads term %d; want a term above %d", got.leader.Leader, got.leader.Term, after)
		case wire.CodeOf(got.err) == wire.CodeNoLeader && noLeader == nil:
			noLeader = got.err
		default:
			other = got.err
		}
	}
	if noLeader != nil {
		return metaclient.LeaderInfo{}, noLeader
	}
	return metaclient.LeaderInfo{}, other
}

// electionListCommand is `election list`, and under its former name `elections`.
func (a *app) electionListCommand(use string) *cobra.Command {
	return lister(a, &cobra.Command{
		Use: use, Short: "List the elections, newest first",
		Long: `List the elections, newest first. LEADERLESS is the time without a leader: from the
previous leader's last valid moment (its resignation, the breaking of its connection,
or the end of its lease) to the new leader's first write under its term. AT is the time
of that write, by the database's clock. Of a time in which no meta ran LEADERLESS has
only what the winner has seen.`,
	}, (*metaclient.Admin).Elections, writeElections)
}

func writeElections(w io.Writer, elections []metaclient.Election) {
	writeRows(w, elections, "TERM OWNER PREVIOUS CAUSE LEADERLESS AT", func(e metaclient.Election) []any {
		return []any{e.Term, e.Owner, e.Previous, e.Cause, ms(e.LeaderlessMs), clock(e.At)}
	})
}

func (a *app) resignCommand() *cobra.Command {
	var before metaclient.LeaderInfo
	return a.operation(
		&cobra.Command{Use: "resign", Short: "Make the leader resign, so that another is elected", Args: want()},
		func(ctx context.Context, admin *metaclient.Admin, _ []string, options ...metaclient.Option) (err error) {
			if before, err = a.awaitLeader(ctx, 0, 0); err != nil {
				return err
			}
			return admin.Resign(ctx, options...)
		}, func(cmd *cobra.Command, _ []string) error {
			after, err := a.awaitLeader(cmd.Context(), before.Term, requestWait)
			if err != nil {
				return err
			}
			return a.show(after, func(w io.Writer) {
				line(w, "%s resigned term %d; %s leads term %d", before.Leader, before.Term, after.Leader, after.Term)
			})
		})
}

// electionCommand has what concerns the election of the meta leader. `elections`
// and `resign` are also commands by themselves, and `quit` is the former name of
// `observe`.
func (a *app) electionCommand() *cobra.Command {
	act := func(use, short, done string, do func(*metaclient.Admin, context.Context, string, ...metaclient.Option) error) *cobra.Command {
		return a.operation(
			&cobra.Command{Use: use + " META", Short: short, Args: want("META"), ValidArgsFunction: a.completeNames(nodeRoles[:1])},
			func(ctx context.Context, admin *metaclient.Admin, args []string, options ...metaclient.Option) error {
				return do(admin, ctx, args[0], options...)
			}, func(cmd *cobra.Command, args []string) error {
				return a.show(map[string]string{"name": args[0], "election": cmd.CalledAs()}, func(w io.Writer) { line(w, "%s %s", args[0], done) })
			})
	}
	observe := act("observe", "Make a meta an observer; it resigns if it leads", "observes", (*metaclient.Admin).Quit)
	observe.Aliases = []string{"quit"}
	refresh := act("force-refresh", "Make a meta the lock's owner (profile sofa only)", "owns the lock", (*metaclient.Admin).ForceRefresh)
	refresh.Long = `Make a meta the owner of the lock without an election, as SOFARegistry's force refresh
does: the term stays, so it has two owners. Only the profile sofa takes it. No meta leads
until the lock has expired, so it is refused without --force.`
	return group("election", "List or watch elections, resign, observe, join", a.electionListCommand("list"), a.electionWatchCommand(), a.resignCommand(),
		observe, act("join", "Make an observer a candidate again", "is a candidate", (*metaclient.Admin).Rejoin), refresh)
}
