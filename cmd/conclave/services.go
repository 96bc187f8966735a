package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
)

// What is registered in the whole cluster: the sessions are asked, since each
// is the source of truth about its own clients.

// publisher is one registration: a row of a session's /v1/publishers.
type publisher struct {
	registry.Publisher
	Session string `json:"session"` // added here
}

// subscriber is a row of a session's /v1/subscribers.
type subscriber struct {
	registry.Subscriber
	Session string `json:"session"` // added here
}

// clientRow is a row of a session's /v1/clients.
type clientRow struct {
	Client        string    `json:"client"`
	Name          string    `json:"name"`
	Protocol      string    `json:"protocol"`
	Address       string    `json:"address"`
	Since         time.Time `json:"since"`
	Registrations int       `json:"registrations"`
	Subscriptions int       `json:"subscriptions"` // added here
	Session       string    `json:"session"`       // added here
}

// registrations are those of all sessions that answered.
type registrations struct {
	publishers  []publisher
	subscribers []subscriber
	clients     []clientRow
}

// registrations asks all sessions what is registered. It warns of those that do not
// answer, and fails if none does.
func (a *app) registrations(ctx context.Context) (registrations, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	a.takeTokenOfSessions()
	sessions, err := a.sessionAddresses(ctx)
	if err != nil {
		return registrations{}, err
	}
	answers, errs := make([]registrations, len(sessions)), make([]error, len(sessions))
	var asking sync.WaitGroup
	for i, s := range sessions {
		asking.Go(func() { answers[i], errs[i] = a.askSession(ctx, s) })
	}
	asking.Wait()
	var all registrations
	var silent []string
	for i, s := range sessions {
		if errs[i] != nil {
			silent = append(silent, s.name)
			continue
		}
		all.publishers = append(all.publishers, answers[i].publishers...)
		all.subscribers = append(all.subscribers, answers[i].subscribers...)
		all.clients = append(all.clients, answers[i].clients...)
	}
	if n := len(silent); n > 0 && n < len(sessions) {
		a.warn(failure{Code: string(wire.CodeUnavailable), Message: strings.Join(silent, ", ") + " did not answer: what is registered there is missing here"})
	}
	all.publishers = newestOf(all.publishers)
	slices.SortStableFunc(all.subscribers, func(x, y subscriber) int {
		return cmp.Or(strings.Compare(x.String(), y.String()), strings.Compare(x.Client, y.Client), strings.Compare(x.Address, y.Address))
	})
	slices.SortStableFunc(all.clients, func(x, y clientRow) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Address, y.Address))
	})
	switch {
	case len(sessions) == 0:
		return all, errors.New("the cluster has no session")
	case len(silent) == len(sessions):
		return all, wire.Errorf(wire.CodeUnavailable, "no session answers (%v)", errors.Join(errs...))
	}
	return all, nil
}

// newestOf returns the registrations by dataId and values, each once: a session
// that a client has left keeps what it had until the client's lease ends.
func newestOf(all []publisher) []publisher {
	slices.SortFunc(all, func(x, y publisher) int {
		return cmp.Or(strings.Compare(x.ID, y.ID), -cmp.Compare(x.Version, y.Version), strings.Compare(x.Session, y.Session))
	})
	all = slices.CompactFunc(all, func(x, y publisher) bool { return x.ID == y.ID })
	slices.SortStableFunc(all, func(x, y publisher) int {
		return cmp.Or(strings.Compare(x.Data.String(), y.Data.String()), slices.Compare(x.Values, y.Values))
	})
	return all
}

func (a *app) askSession(ctx context.Context, s nodeAddress) (r registrations, err error) {
	if r.publishers, err = getList[publisher](ctx, a, s.address, "/v1/publishers"); err == nil {
		r.subscribers, err = getList[subscriber](ctx, a, s.address, "/v1/subscribers")
	}
	if err == nil {
		r.clients, err = getList[clientRow](ctx, a, s.address, "/v1/clients")
	}
	r.publishers = slices.DeleteFunc(r.publishers, func(p publisher) bool { return p.Withdrawn })
	subscriptions := map[string]int{}
	for i := range r.publishers {
		r.publishers[i].Session = s.name
	}
	for i := range r.subscribers {
		r.subscribers[i].Session = s.name
		subscriptions[r.subscribers[i].ClientID]++
	}
	for i := range r.clients {
		r.clients[i].Session, r.clients[i].Subscriptions = s.name, subscriptions[r.clients[i].Client]
	}
	return r, err
}

// at returns the part that has to do with an address (HOST or HOST:PORT): a
// value or a client that is there. For "" it is everything.
func (r registrations) at(address string) registrations {
	if address == "" {
		return r
	}
	is := func(s string) bool { return isAt(s, address) }
	return registrations{
		publishers:  filter(r.publishers, func(p publisher) bool { return is(p.Address) || slices.ContainsFunc(p.Values, is) }),
		subscribers: filter(r.subscribers, func(s subscriber) bool { return is(s.Address) }),
		clients:     filter(r.clients, func(c clientRow) bool { return is(c.Address) }),
	}
}

// isAt reports whether s is at an address: the same HOST:PORT, or on that HOST.
func isAt(s, address string) bool {
	host, _, err := net.SplitHostPort(s)
	return s == address || err == nil && host == address
}

func filter[T any](all []T, keep func(T) bool) []T {
	out := []T{} // so that JSON has a list
	for _, x := range all {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}

// service is one DataInfoID: a row of `services`.
type service struct {
	conclave.DataInfoID
	Publishers  int      `json:"publishers"`
	Subscribers int      `json:"subscribers"`
	Values      int      `json:"values"`
	Sessions    []string `json:"sessions"` // through which it is registered or subscribed
}

// services counts the registrations by DataInfoID, sorted.
func (r registrations) services() []service {
	byID := map[conclave.DataInfoID]*service{}
	of := func(id conclave.DataInfoID, session string) *service {
		s := byID[id]
		if s == nil {
			s = &service{DataInfoID: id}
			byID[id] = s
		}
		if !slices.Contains(s.Sessions, session) {
			s.Sessions = append(s.Sessions, session)
			slices.Sort(s.Sessions)
		}
		return s
	}
	for _, p := range r.publishers {
		s := of(p.Data, p.Session)
		s.Publishers++
		s.Values += len(p.Values)
	}
	for _, x := range r.subscribers {
		of(x.DataInfoID, x.Session).Subscribers++
	}
	out := []service{}
	for _, s := range byID {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(x, y service) int { return strings.Compare(x.String(), y.String()) })
	return out
}

// shownID formats a DataInfoID without the defaults.
func shownID(id conclave.DataInfoID) string {
	text := id.DataID
	if id.Group != conclave.DefaultGroup {
		text += ", group " + id.Group
	}
	if id.Instance != conclave.DefaultInstance {
		text += ", instance " + id.Instance
	}
	return text
}

// registeredCommand makes a command that lists a part of what is registered, chosen by
// its argument and by --address.
func registeredCommand[T any](a *app, cmd *cobra.Command, about string, list func(r registrations, argument string) []T, none, noneChosen string, write func(io.Writer, []T)) *cobra.Command {
	var address string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := a.registrations(cmd.Context())
		if err != nil {
			return err
		}
		argument := strings.Join(args, "")
		rows := list(found.at(address), argument)
		return a.show(rows, func(w io.Writer) {
			if len(rows) == 0 {
				fmt.Fprintln(w, either(argument+address == "", none, noneChosen))
				return
			}
			write(w, rows)
		})
	}
	a.addSessionFlag(cmd)
	cmd.Flags().StringVar(&address, "address", "", about)
	return cmd
}

func (a *app) servicesCommand() *cobra.Command {
	return registeredCommand(a, &cobra.Command{
		Use: "services [PREFIX]", Short: "List what is registered in the cluster", Args: want("[PREFIX]"),
		Long: `List the dataIds that have publishers or subscribers, of all sessions. PREFIX is the
beginning of the dataIds to list.`,
	}, "only those with a value or a client at this HOST or HOST:PORT", func(r registrations, prefix string) []service {
		return filter(r.services(), func(s service) bool { return strings.HasPrefix(s.DataID, prefix) })
	}, "nothing is registered", "no dataId with that prefix or address is registered", func(w io.Writer, rows []service) {
		writeRows(w, rows, "DATAID PUBLISHERS VALUES SUBSCRIBERS SESSIONS", func(s service) []any {
			return []any{shownID(s.DataInfoID), s.Publishers, s.Values, s.Subscribers, strings.Join(s.Sessions, ",")}
		})
	})
}

func (a *app) clientsCommand() *cobra.Command {
	return registeredCommand(a, &cobra.Command{
		Use: "clients [NAME]", Short: "List the clients of all sessions", Args: want("[NAME]"),
	}, "only those at this HOST or HOST:PORT", func(r registrations, name string) []clientRow {
		return filter(r.clients, func(c clientRow) bool { return name == "" || c.Name == name })
	}, "no client is connected", "no client with that name or address is connected", func(w io.Writer, rows []clientRow) {
		writeRows(w, rows, "NAME ADDRESS SESSION PUBLISHES SUBSCRIBES SINCE PROTOCOL", func(c clientRow) []any {
			return []any{c.Name, c.Address, c.Session, c.Registrations, c.Subscriptions, clock(c.Since), c.Protocol}
		})
	})
}

// description is the output of `describe`.
type description struct {
	Publishers  []publisher  `json:"publishers"`
	Subscribers []subscriber `json:"subscribers"`
}

func (a *app) describeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe DATAID|CLIENT|ADDRESS", Short: "Show who publishes and who subscribes", Args: want("DATAID|CLIENT|ADDRESS"),
		Long: `Show the publishers and subscribers of a dataId with their clients, and the session
through which each is registered. If there is no such dataId, show those of the clients
with that name, or those with a value or a client at that address (HOST or HOST:PORT).
Exit with 1 if there is nothing.

REVISION counts the changes of one registration by its publisher. VERSION is that of the
list that the subscriber has, as "subscribe" prints it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := a.registrations(cmd.Context())
			if err != nil {
				return err
			}
			found := all.of(args[0])
			if len(found.Publishers)+len(found.Subscribers) == 0 {
				return fmt.Errorf("no dataId, client or address %q has a registration; list what has with %s", args[0], a.hint("services"))
			}
			return a.show(found, func(w io.Writer) { writeDescription(w, found) })
		},
	}
	a.addSessionFlag(cmd)
	return cmd
}

// of returns what has to do with a dataId, a client's name or an address: the
// first of these that there is.
func (r registrations) of(name string) description {
	for _, is := range []func(dataID, client, address string, values []string) bool{
		func(dataID, _, _ string, _ []string) bool { return dataID == name },
		func(_, client, _ string, _ []string) bool { return client == name },
		func(_, _, address string, values []string) bool {
			return isAt(address, name) || slices.ContainsFunc(values, func(v string) bool { return isAt(v, name) })
		},
	} {
		d := description{
			filter(r.publishers, func(p publisher) bool { return is(p.Data.DataID, p.Client, p.Address, p.Values) }),
			filter(r.subscribers, func(s subscriber) bool { return is(s.DataID, s.Client, s.Address, nil) }),
		}
		if len(d.Publishers)+len(d.Subscribers) > 0 {
			return d
		}
	}
	return description{[]publisher{}, []subscriber{}}
}

func writeDescription(w io.Writer, d description) {
	if len(d.Publishers) > 0 {
		writeRows(w, d.Publishers, "DATAID PUBLISHER ADDRESS SESSION SLOT REVISION STORED VALUES", func(p publisher) []any {
			return []any{shownID(p.Data), p.Client, p.Address, p.Session, p.Slot, p.Version, either(p.Stored.IsZero(), "not yet", "yes"), strings.Join(p.Values, ", ")}
		})
	}
	if len(d.Publishers) > 0 && len(d.Subscribers) > 0 {
		fmt.Fprintln(w)
	}
	if len(d.Subscribers) > 0 {
		writeRows(w, d.Subscribers, "DATAID SUBSCRIBER ADDRESS SESSION VERSION LIST", func(s subscriber) []any {
			list := either(s.Version == 0, "none yet", plural(s.Values, "value")) + either(s.Held, ", a newer one is held back", "")
			return []any{shownID(s.DataInfoID), s.Client, s.Address, s.Session, s.Version, list}
		})
	}
}
