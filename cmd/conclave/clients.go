package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/client"
)

// clientsCommand keeps publishers and subscribers at work in one process, as
// `up --clients` does with a process for each: a container without a shell runs
// one.
func (a *app) clientsCommand() *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use: "clients", Hidden: true, Args: want(),
		Short: "Keep publishers and as many subscribers of demo.echo at work until interrupted",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count < 1 {
				return usageError{fmt.Errorf("--count is %d: want 1 or more", count)}
			}
			return a.clients(cmd.Context(), count)
		},
	}
	cmd.Flags().IntVar(&count, "count", 2, "publishers, and as many subscribers")
	return cmd
}

// clients run until ctx ends, or until one of them cannot go on: then all end.
func (a *app) clients(ctx context.Context, count int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var printing sync.Mutex // guards a.stdout
	say := func(format string, args ...any) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintf(a.stdout, clock(now())+"  "+format+"\n", args...)
	}
	errs := make([]error, 2*count)
	var running sync.WaitGroup
	work := func(i int, name string, f func(c *client.Client) error) {
		c, leave, err := a.connect(name, 0) // here: it settles the token, for all
		if err != nil {
			errs[i] = err
			stop()
			return
		}
		running.Go(func() {
			defer stop()
			err := f(c)
			if err == nil {
				<-ctx.Done()
			}
			errs[i] = errors.Join(err, leave(err == nil))
		})
	}
	for i := range count {
		name := fmt.Sprintf("publisher-%d", i+1)
		work(i, name, func(c *client.Client) error {
			value := fmt.Sprintf("10.0.0.%d:8080", i+1)
			p, err := c.Publish(ctx, demoDataID, []string{value})
			if err != nil {
				return err
			}
			if err := p.Stored(ctx); err != nil {
				if ctx.Err() != nil {
					return nil // told to leave before data had it
				}
				return err
			}
			say("%s  %s = %s", name, demoDataID, value)
			return nil
		})
	}
	for i := range count {
		name := fmt.Sprintf("subscriber-%d", i+1)
		work(count+i, name, func(c *client.Client) error {
			_, err := c.Subscribe(demoDataID, client.OnPush(func(d conclave.Datum) {
				say("%s  %s  version %d  %s: %s", name, d.Data.DataID, d.Version, plural(len(d.Values), "value"), strings.Join(d.Values, ", "))
			}))
			return err
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// demoDataID is what clients without a purpose of their own publish under.
const demoDataID = "demo.echo"
