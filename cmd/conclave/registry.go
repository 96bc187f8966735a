package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/client"
)

// registryFlags are the flags for the tenant and the group.
type registryFlags struct{ group, instance string }

func (a *app) addRegistryFlags(cmd *cobra.Command, f *registryFlags) {
	a.addSessionFlag(cmd)
	cmd.Flags().StringVar(&f.group, "group", conclave.DefaultGroup, "group of the data")
	cmd.Flags().StringVar(&f.instance, "instance", conclave.DefaultInstance, "instance (tenant) of the data")
}

func (f *registryFlags) options(more ...client.Option) []client.Option {
	return append(more, client.Group(f.group), client.Instance(f.instance))
}

// check validates a dataId before the tool connects.
func (f *registryFlags) check(dataID string) error {
	if _, err := conclave.NewDataInfoID(dataID, f.instance, f.group); err != nil {
		return usageError{err}
	}
	return nil
}

// sessions returns the function with which clients find sessions: those of the
// local cluster, even if no meta answers, or those that the metas list.
func (a *app) sessions() (func(context.Context) ([]string, error), error) {
	a.takeTokenOfSessions()
	err := checkAddresses("--session", a.sessionsAt...)
	if len(a.sessionsAt) == 0 { // the addresses that metas list may not be reachable from here
		_, err = a.metaAddresses()
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (out []string, err error) {
		nodes, err := a.sessionAddresses(ctx)
		for _, n := range nodes {
			out = append(out, n.address)
		}
		return out, err
	}, nil
}

// connect runs a client until leave is called. With goodbye it withdraws
// everything; without, it ends as if the process had crashed.
func (a *app) connect(name string, linger time.Duration) (c *client.Client, leave func(goodbye bool) error, err error) {
	resolve, err := a.sessions()
	if err != nil {
		return nil, nil, err
	}
	cfg := client.Config{Resolve: resolve, Bind: len(a.metas) > 0 && len(a.sessionsAt) == 0, Name: name, Token: a.token, GiveUp: true, Linger: linger}
	if a.certs != nil {
		cfg.TLSFrom = a.certs.Client
	}
	c, err = client.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	ctx, die := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // nil or the context's error
	return c, func(goodbye bool) error {
		defer running.Wait()
		defer die()
		if !goodbye {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return c.Close(ctx)
	}, nil
}

// publication is the output of publish.
type publication struct {
	ID       string    `json:"id"`
	DataID   string    `json:"dataId"`
	Group    string    `json:"group"`
	Instance string    `json:"instance"`
	Values   []string  `json:"values"`
	At       time.Time `json:"at"`
}

func (a *app) publishCommand() *cobra.Command {
	var f registryFlags
	var hold bool
	var linger, timeout time.Duration
	cmd := &cobra.Command{
		Use: "publish DATAID=VALUE...", Short: "Publish values",
		Long: `Publish values and return when data nodes have stored them. The values stay for the
sessions' client lease (--linger, 5s) after the command has ended, or at most for the
session grace (15s) if the session that took them dies meanwhile. With --hold the
command runs until it is interrupted and then withdraws them. A DATAID can have several
values.`,
		Args: want("DATAID=VALUE..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			order, values, err := f.parse(args)
			if err != nil {
				return err
			}
			if hold {
				linger = 0
			}
			c, leave, err := a.connect("conclave publish", max(linger, 0))
			if err != nil {
				return err
			}
			err = a.publish(cmd.Context(), c, f, order, values, timeout)
			switch {
			case err != nil:
				return errors.Join(err, leave(false))
			case hold:
				<-cmd.Context().Done()
				return leave(true)
			}
			return leave(linger <= 0)
		},
	}
	a.addRegistryFlags(cmd, &f)
	cmd.Flags().BoolVar(&hold, "hold", false, "run until interrupted, then withdraw the values")
	cmd.Flags().DurationVar(&linger, "linger", 5*time.Second, "how long the values stay after the command has ended; 0 withdraws them at the end")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "give up if the values are not stored within this time")
	return cmd
}

// parse parses DATAID=VALUE... and keeps the order of both.
func (f *registryFlags) parse(args []string) (order []string, values map[string][]string, err error) {
	values = make(map[string][]string)
	for _, arg := range args {
		dataID, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, nil, usageError{fmt.Errorf("%q: want DATAID=VALUE", arg)}
		}
		if err := f.check(dataID); err != nil {
			return nil, nil, err
		}
		if values[dataID] == nil {
			order = append(order, dataID)
		}
		values[dataID] = append(values[dataID], value)
	}
	for _, dataID := range order {
		if err := conclave.ValidateValues(values[dataID]); err != nil {
			return nil, nil, usageError{fmt.Errorf("%s: %w", dataID, err)}
		}
	}
	return order, values, nil
}

// publish publishes and waits until data nodes have stored the values.
func (a *app) publish(ctx context.Context, c *client.Client, f registryFlags, order []string, values map[string][]string, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var publications []*client.Publication
	for _, dataID := range order {
		p, err := c.Publish(waiting, dataID, values[dataID], f.options()...)
		if err != nil {
			return err
		}
		publications = append(publications, p)
	}
	for i, p := range publications {
		if err := p.Stored(waiting); err != nil {
			if waiting.Err() != nil && ctx.Err() == nil {
				return fmt.Errorf("%w after %s: %w; %s", errTimedOut, timeout, err, a.connection(c))
			}
			return err
		}
		out := publication{
			ID: p.ID(), DataID: order[i], Group: f.group, Instance: f.instance, Values: values[order[i]], At: now(),
		}
		err := a.show(out, func(w io.Writer) {
			line(w, "%s  %s  %s", clock(out.At), out.DataID, strings.Join(out.Values, ", "))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// connection describes what a waiting client is connected to, with advice.
func (a *app) connection(c *client.Client) string {
	var names []string
	for _, n := range c.Connected() {
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return "no session can be reached; check them with " + a.hint("nodes --role session")
	}
	return "connected to " + strings.Join(names, ", ") + "; check the data nodes with " + a.hint("slots")
}

// push is one line of the output of subscribe.
type push struct {
	DataID   string    `json:"dataId"`
	Group    string    `json:"group"`
	Instance string    `json:"instance"`
	Version  int64     `json:"version"`
	Values   []string  `json:"values"`
	At       time.Time `json:"at"`
	// UnconfirmedMs is set if values may be missing, to the time within which
	// they are expected again.
	UnconfirmedMs int64 `json:"unconfirmedMs,omitempty"`
}

func (a *app) subscribeCommand() *cobra.Command {
	var f registryFlags
	var count int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "subscribe DATAID...", Short: "Print each push of the published values", Args: want("DATAID..."),
		Long: `Print one line per push until interrupted, until --count pushes were printed, or until
--timeout has passed (exit code 4 if there were fewer than --count pushes or none).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.subscribe(cmd.Context(), f, args, count, timeout, a.printPush)
		},
	}
	a.addRegistryFlags(cmd, &f)
	cmd.Flags().IntVar(&count, "count", 0, "end after this many pushes")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "end after this long")
	return cmd
}

func (a *app) getCommand() *cobra.Command {
	var f registryFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "get DATAID", Short: "Print the published values", Args: want("DATAID"),
		Long: `Print the published values and end. Exit with 1 if nothing is published under DATAID;
with --json the document with an empty list is printed, and no error.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			found := 0
			print := func(d conclave.Datum) error {
				if found = len(d.Values); found == 0 && !a.asJSON {
					return nil
				}
				return a.printPush(d)
			}
			err := a.subscribe(cmd.Context(), f, args, 1, timeout, print, client.HoldAtMost(min(getHeld, timeout/2)))
			switch {
			case err != nil || found > 0 || cmd.Context().Err() != nil:
			case a.asJSON:
				err = exitError{exitFailed} // the document says it
			default:
				err = fmt.Errorf("nothing is published under %s; list what is with %s", args[0], a.hint("services"))
			}
			return err
		},
	}
	a.addRegistryFlags(cmd, &f)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "give up after this long")
	return cmd
}

// getHeld is how long get waits for registrations that are expected again
// before it prints the values without them.
const getHeld = 2 * time.Second

// subscribe calls print for each push until ctx ends, count of them were
// printed, or the timeout has passed.
func (a *app) subscribe(ctx context.Context, f registryFlags, dataIDs []string, count int, timeout time.Duration, print func(conclave.Datum) error, more ...client.Option) (err error) {
	for _, dataID := range dataIDs {
		if err := f.check(dataID); err != nil {
			return err
		}
	}
	c, leave, err := a.connect("conclave subscribe", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave(false)) }() // nothing was published, so there is nothing to withdraw
	pushes := make(chan conclave.Datum)
	done := make(chan struct{})
	defer close(done)
	var subscriptions []*client.Subscription
	for _, dataID := range dataIDs {
		s, err := c.Subscribe(dataID, append(f.options(client.OnPush(func(d conclave.Datum) {
			select {
			case pushes <- d:
			case <-done:
			}
		})), more...)...)
		if err != nil {
			return err
		}
		subscriptions = append(subscriptions, s)
	}
	var over <-chan time.Time
	if timeout > 0 {
		over = time.After(timeout)
	}
	refused := time.NewTicker(50 * time.Millisecond)
	defer refused.Stop()
	for printed := 0; ; {
		select {
		case d := <-pushes:
			if err := print(d); err != nil {
				return err
			}
			if printed++; printed == count {
				return nil
			}
		case <-refused.C:
			for _, s := range subscriptions {
				if err := s.Err(); err != nil {
					return err
				}
			}
		case <-over:
			if count > 0 || printed == 0 {
				return fmt.Errorf("%w after %s with %s; %s", errTimedOut, timeout, plural(printed, "push"), a.connection(c))
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *app) printPush(d conclave.Datum) error {
	p := push{DataID: d.Data.DataID, Group: d.Data.Group, Instance: d.Data.Instance, Version: d.Version, Values: d.Values, At: now(), UnconfirmedMs: d.Unconfirmed.Milliseconds()}
	if p.Values == nil {
		p.Values = []string{}
	}
	return a.show(p, func(w io.Writer) {
		line(w, "%s  %s  version %d  %s: %s", clock(p.At), p.DataID, p.Version, plural(len(p.Values), "value"), strings.Join(p.Values, ", "))
		if p.UnconfirmedMs > 0 {
			line(w, "  unconfirmed: missing registrations are expected again within %s", d.Unconfirmed.Round(100*time.Millisecond))
		}
	})
}
