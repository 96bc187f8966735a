package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"conclave/testbed/playground/page"
	"conclave/wire"
	"conclave/wire/serve"
)

func (a *app) playgroundCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "playground [DIR]", Short: "Try failures in a browser, without a cluster", Args: want("[DIR]"),
		Long: `Serve the folder that "make playground" has made, as any host of static files can: a page
with recordings of failures and a cluster to break. It is for trying the page, so it
listens on a loopback address only.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "playground" // what make playground makes
			if len(args) > 0 {
				dir = args[0]
			}
			if err := checkLoopback("--listen", listen); err != nil {
				return err
			}
			if _, err := os.Stat(filepath.Join(dir, "worker.js")); err != nil {
				return usageError{fmt.Errorf("there is no playground in %s: make playground makes it: %w", dir, err)}
			}
			ln, err := listenConsole(cmd.Context(), "--listen", listen)
			if err != nil {
				return err
			}
			return a.servePlayground(cmd.Context(), ln, dir)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9701", "loopback address to listen on")
	return cmd
}

// checkLoopback returns a usageError if a flag has another address than one of loopback.
func checkLoopback(flag, address string) error {
	host, _, _ := net.SplitHostPort(address) // listenConsole checks the rest
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return usageError{fmt.Errorf("%s %q: want a loopback address; to publish the folder, copy it to a host of static files", flag, address)}
	}
	return nil
}

// servePlayground serves a folder until ctx ends, and closes the listener.
func (a *app) servePlayground(ctx context.Context, ln net.Listener, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer root.Close()
	server := serve.NewHTTPServer(ln, serve.RefuseForeignPages(playgroundFiles(http.FileServerFS(root.FS()))), wire.PingTimeout)
	at := "http://" + ln.Addr().String() + "/"
	if err := a.show(map[string]string{"page": at}, func(w io.Writer) { line(w, "playground: %s", at) }); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer context.AfterFunc(ctx, server.Close)()
	return server.Serve()
}

// playgroundFiles adds the headers that a host should send.
func playgroundFiles(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", page.Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}
