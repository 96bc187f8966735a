package main

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/certs"
	"conclave/wire/rights"
)

func TestHealth_ExitCode(t *testing.T) {
	hang := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{\"reasons\":[]}\n")) })
	mux.HandleFunc("GET /not", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"reasons":["no leader is known"]}`, http.StatusServiceUnavailable)
	})
	mux.HandleFunc("GET /hang", func(http.ResponseWriter, *http.Request) { <-hang })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })

	r := tool(t, "health", s.URL+"/ready")
	assert.Equal(t, exitDone, r.code, r.stderr)
	assert.Equal(t, "200 {\"reasons\":[]}\n", r.stdout)

	r = tool(t, "health", s.URL+"/not")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "503")
	assert.Contains(t, r.stderr, "no leader is known")

	began := time.Now()
	r = tool(t, "health", "--timeout", "50ms", s.URL+"/hang")
	assert.Equal(t, exitTimedOut, r.code)
	assert.Less(t, time.Since(began), 2*time.Second)

	assert.Equal(t, exitFailed, tool(t, "health", "http://127.0.0.1:1/readyz").code)
	for _, wrong := range []string{"127.0.0.1:9615", "/readyz", "ftp://x/y"} {
		r = tool(t, "health", wrong)
		assert.Equal(t, exitUsage, r.code, wrong)
		assert.Contains(t, r.stderr, wrong)
	}
}

func TestSecrets_AreCreatedOnceAndMatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	read := func(name string) string {
		body, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(body)
	}
	r := tool(t, "secrets", dir)
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Equal(t, "drew cluster/token\ndrew app/token\ndrew db/root-password\ndrew db/password\ndrew cluster/tokens\ndrew meta/dsn\ndrew meta/tls-dsn\ndrew migrate/dsn\ndrew migrate/tls-dsn\n", r.stdout)
	token, root, password := read(tokenSecret), read(rootSecret), read(passwordSecret)
	for _, s := range []string{token, root, password} {
		assert.Regexp(t, `^[A-Z2-7]{26,}$`, s, "nothing that a shell, a DSN or a header would read otherwise")
	}
	assert.NotEqual(t, root, password)
	assert.NotEqual(t, token, password)
	fits := func() {
		assert.Regexp(t, `^meta:[A-Z2-7]{26,}@tcp\(db:3306\)/conclave$`, read(dsnSecret), "a user that only runs")
		assert.NotContains(t, read(dsnSecret), password)
		assert.Equal(t, read(dsnSecret)+tlsOfDSN, read(tlsDSNSecret))
		assert.Equal(t, "root:"+root+"@tcp(db:3306)/conclave", read(ownerSecret))
		assert.Equal(t, read(ownerSecret)+tlsOfDSN, read(ownerTLSSecret))
	}
	fits()
	tokens, err := rights.Parse(read(tokensSecret))
	require.NoError(t, err)
	assert.Equal(t, token, tokens.Token(rights.Operator, ""))
	assert.Equal(t, read(appSecret), tokens.Token(rights.Publish, ""))
	assert.NotContains(t, []string{token, read(appSecret)}, tokens.Token(rights.Node, ""))
	for name, mode := range map[string]os.FileMode{".": 0o700, "cluster": 0o755, tokenSecret: 0o444, dsnSecret: 0o444} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), name)
	}

	// A second start changes nothing; missing files are created to match the
	// others.
	require.NoError(t, os.Remove(filepath.Join(dir, dsnSecret)))
	require.NoError(t, os.Remove(filepath.Join(dir, tokenSecret)))
	require.NoError(t, os.Remove(filepath.Join(dir, tokensSecret)))
	r = tool(t, "secrets", dir)
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Equal(t, "drew cluster/token\ndrew cluster/tokens\ndrew meta/dsn\ndrew meta/tls-dsn\n", r.stdout)
	assert.NotEqual(t, token, read(tokenSecret))
	assert.Equal(t, password, read(passwordSecret))
	fits()
	assert.Empty(t, tool(t, "secrets", dir).stdout)

	left, err := filepath.Glob(filepath.Join(dir, "*", ".new-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Equal(t, exitUsage, tool(t, "secrets").code)
}

// A second call renews the certificates; the CA stays, and no container needs its
// key.
func TestSecrets_CertificatesAreRenewedAtEachStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	load := func() *certs.Set {
		r := tool(t, "secrets", "--certs", "meta-1,127.0.0.1", dir)
		require.Equal(t, exitDone, r.code, r.stderr)
		assert.Contains(t, r.stdout, "issued certificates")
		set, err := certs.Load(filepath.Join(dir, certFolder, "meta"), conclave.RoleMeta, func(error) {})
		require.NoError(t, err)
		return set
	}
	leaf := func(s *certs.Set) *x509.Certificate { return s.Client().Certificates[0].Leaf }
	first := load()
	ca, err := os.ReadFile(filepath.Join(dir, caFolder, certs.CAFile))
	require.NoError(t, err)
	second := load()
	assert.NotEqual(t, leaf(first).SerialNumber, leaf(second).SerialNumber)
	assert.NoError(t, leaf(second).VerifyHostname("meta-1"))
	assert.NoError(t, leaf(second).VerifyHostname("127.0.0.1"))
	assert.Error(t, leaf(second).VerifyHostname("data-1"))
	again, err := os.ReadFile(filepath.Join(dir, caFolder, certs.CAFile))
	require.NoError(t, err)
	assert.Equal(t, ca, again)
	_, err = certs.Load(filepath.Join(dir, certFolder, "client"), "", func(error) {})
	require.NoError(t, err)
	for name, mode := range map[string]os.FileMode{".": 0o700, caFolder: 0o700, "ca/" + certs.CAKeyFile: 0o600, "tls/meta": 0o755, "tls/meta/" + certs.KeyFile: 0o444, "tls/db/" + certs.KeyFile: 0o444} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), name)
	}
	found, err := filepath.Glob(filepath.Join(dir, certFolder, "*", "ca-key*"))
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestSecrets_WriteErrorFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	r := tool(t, "secrets", file)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, file)
}

func TestCerts_SecondCallRenewsCertificatesOfTheSameCA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first, err := issueCerts(dir, dir, []string{"10.0.0.1"}, certs.Valid)
	require.NoError(t, err)
	require.Len(t, first, 4)
	assert.Equal(t, filepath.Join(dir, "meta"), first[0].Dir)
	read := func(name string) string {
		body, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(body)
	}
	ca, node := read("ca.pem"), read("meta/node.pem")
	_, err = issueCerts(dir, dir, []string{"10.0.0.1"}, certs.Valid)
	require.NoError(t, err)
	assert.Equal(t, ca, read("ca.pem"))
	assert.NotEqual(t, node, read("meta/node.pem"))
}
