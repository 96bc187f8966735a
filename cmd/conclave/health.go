package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthCommand is the health check of a container that has no shell: it asks a
// process and says by its exit code what it heard.
func (a *app) healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health URL", Hidden: true, Args: want("URL"),
		Short: "Ask one process whether it is ready: exit 0 when the answer is 200",
		RunE: func(cmd *cobra.Command, args []string) error {
			if u, err := url.Parse(args[0]); err != nil || u.Scheme != "http" || u.Host == "" {
				return usageError{fmt.Errorf("health %q: want a URL such as http://127.0.0.1:9615/readyz", args[0])}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.health(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "give up after this long")
	return cmd
}

func (a *app) health(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return usageError{err}
	}
	res, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err != nil {
		return err
	}
	said := strings.Join(strings.Fields(string(body)), " ")
	if res.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(fmt.Sprintf("%s answers %s %s", address, res.Status, said)))
	}
	fmt.Fprintln(a.stdout, strings.TrimSpace("200 "+said))
	return nil
}
