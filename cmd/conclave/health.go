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

// healthCommand is the health check for containers without a shell. Its exit
// code is the result.
func (a *app) healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health URL", Hidden: true, Args: want("URL"),
		Short: "Check one process: exit 0 if it answers 200",
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
	text := strings.Join(strings.Fields(string(body)), " ")
	if res.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(fmt.Sprintf("%s answered %s %s", address, res.Status, text)))
	}
	fmt.Fprintln(a.stdout, strings.TrimSpace("200 "+text))
	return nil
}
