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
	"conclave/internal/supervisor"
)

// registryFlags name the tenant and the group, as every command here takes them.
type registryFlags struct{ group, instance string }

func (a *app) addRegistryFlags(cmd *cobra.Command, f *registryFlags) {
	cmd.Flags().StringSliceVar(&a.sessionsAt, "session", nil, "addresses of sessions, instead of those that the metas name (ADDR,...)")
	cmd.Flags().StringVar(&f.group, "group", conclave.DefaultGroup, "the group")
	cmd.Flags().StringVar(&f.instance, "instance", conclave.DefaultInstance, "the instance (a tenant)")
}

func (f *registryFlags) options(more ...client.Option) []client.Option {
	return append(more, client.Group(f.group), client.Instance(f.instance))
}

// check says what is wrong with a dataId before anything is dialled.
func (f *registryFlags) check(dataID string) error {
	if _, err := conclave.NewDataInfoID(dataID, f.instance, f.group); err != nil {
		return usageError{err}
	}
	return nil
}

// sessions is how a client of this tool finds sessions: those of the local
// cluster, also while no meta answers, or those that the metas name.
func (a *app) sessions() (func(context.Context) ([]string, error), error) {
	if len(a.sessionsAt) > 0 { // the names that metas know them by may mean nothing here
		return func(context.Context) ([]string, error) { return a.sessionsAt, nil }, nil
	}
	metas, err := a.metaAddresses()
	if err != nil {
		return nil, err
	}
	if len(a.metas) == 0 {
		h, err := supervisor.Open(a.dir)
		if err != nil {
			return nil, err
		}
		return func(context.Context) ([]string, error) { return h.Addresses("session") }, nil
	}
	admin := a.adminAt(metas)
	return func(ctx context.Context) ([]string, error) {
		nodes, err := admin.Nodes(ctx, conclave.RoleSession)
		var out []string
		for _, n := range nodes {
			out = append(out, n.Address)
		}
		return out, err
	}, nil
}

// connect runs a client until leave is called: with a good-bye, which withdraws
// all, or without, as if the process had died.
func (a *app) connect(name string, linger time.Duration) (c *client.Client, leave func(goodbye bool) error, err error) {
	resolve, err := a.sessions()
	if err != nil {
		return nil, nil, err
	}
	c, err = client.New(client.Config{Resolve: resolve, Name: name, Token: a.token, Linger: linger})
	if err != nil {
		return nil, nil, err
	}
	ctx, die := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // nil, or the context's error
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

// publication is what publish prints.
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
		Long: `Publishes values and returns once data has them. They stay for the sessions' client
lease (--linger, 5s) after the tool left; with --hold the tool stays until it is
interrupted, and then withdraws them. One DATAID may be given several values.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("publish takes DATAID=VALUE, once or more")
			}
			return nil
		},
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
	cmd.Flags().BoolVar(&hold, "hold", false, "stay until interrupted, then withdraw")
	cmd.Flags().DurationVar(&linger, "linger", 5*time.Second, "how long the values stay after the tool left; 0 withdraws them when it leaves")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "give up when data does not have them after this long")
	return cmd
}

// parse reads DATAID=VALUE..., keeping the order of both.
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

// publish publishes and waits until data has it.
func (a *app) publish(ctx context.Context, c *client.Client, f registryFlags, order []string, values map[string][]string, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var made []*client.Publication
	for _, dataID := range order {
		p, err := c.Publish(waiting, dataID, values[dataID], f.options()...)
		if err != nil {
			return err
		}
		made = append(made, p)
	}
	for i, p := range made {
		if err := p.Stored(waiting); err != nil {
			if waiting.Err() != nil && ctx.Err() == nil {
				return fmt.Errorf("%w after %s: %w; %s", errTimedOut, timeout, err, connection(c))
			}
			return err
		}
		out := publication{
			ID: p.ID(), DataID: order[i], Group: f.group, Instance: f.instance, Values: values[order[i]], At: now(),
		}
		err := a.show(out, func(w io.Writer) {
			fmt.Fprintf(w, "%s  %s  %s\n", clock(out.At), out.DataID, strings.Join(out.Values, ", "))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// connection says what a client that waits is connected to.
func connection(c *client.Client) string {
	var names []string
	for _, n := range c.Connected() {
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return "no session can be reached: are they up? (`conclave ps`)"
	}
	return "connected to " + strings.Join(names, ", ") + ": do the data nodes serve? (`conclave slots`)"
}

// push is one line of subscribe.
type push struct {
	DataID   string    `json:"dataId"`
	Group    string    `json:"group"`
	Instance string    `json:"instance"`
	Version  int64     `json:"version"`
	Values   []string  `json:"values"`
	At       time.Time `json:"at"`
	// UnconfirmedMs is there if values may be missing, and for how long they are
	// still expected to come back.
	UnconfirmedMs int64 `json:"unconfirmedMs,omitempty"`
}

func (a *app) subscribeCommand() *cobra.Command {
	var f registryFlags
	var count int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "subscribe DATAID...", Short: "Print each push of what is published", Args: want1("DATAID"),
		Long: `Prints one line per push until it is interrupted, has printed --count of them, or
--timeout has passed (exit 4 when --count was not reached, or nothing came).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.subscribe(cmd.Context(), f, args, count, timeout)
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
		Use: "get DATAID", Short: "Print what is published now", Args: want("DATAID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.subscribe(cmd.Context(), f, args, 1, timeout, client.HoldAtMost(min(getHeld, timeout/2)))
		},
	}
	a.addRegistryFlags(cmd, &f)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "give up after this long")
	return cmd
}

// getHeld is how long get waits for registrations that are expected to come back
// before it prints the list without them.
const getHeld = 2 * time.Second

// want1 is one argument of a kind, or more.
func want1(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s takes %s, once or more", cmd.Name(), name)
		}
		return nil
	}
}

// subscribe prints pushes until ctx ends, count of them came, or the time is over.
func (a *app) subscribe(ctx context.Context, f registryFlags, dataIDs []string, count int, timeout time.Duration, more ...client.Option) (err error) {
	for _, dataID := range dataIDs {
		if err := f.check(dataID); err != nil {
			return err
		}
	}
	c, leave, err := a.connect("conclave subscribe", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave(false)) }() // nothing is published: there is no good-bye to say
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
			if err := a.printPush(d); err != nil {
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
				return fmt.Errorf("%w after %s: %s came; %s", errTimedOut, timeout, plural(printed, "push"), connection(c))
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
		fmt.Fprintf(w, "%s  %s  version %d  %s: %s\n", clock(p.At), p.DataID, p.Version, plural(len(p.Values), "value"), strings.Join(p.Values, ", "))
		if p.UnconfirmedMs > 0 {
			fmt.Fprintf(w, "  unconfirmed: registrations may be missing that are expected back within %s\n", d.Unconfirmed.Round(100*time.Millisecond))
		}
	})
}

// now is the time as it is shown: UTC, whole milliseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
