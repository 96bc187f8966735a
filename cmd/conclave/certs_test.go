package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/certs"
)

func TestCerts_SecondCallRenewsCertificatesOfTheSameCA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first, err := issueCerts(dir, []string{"10.0.0.1"}, certs.Valid)
	require.NoError(t, err)
	require.Len(t, first, 4)
	assert.Equal(t, filepath.Join(dir, "meta"), first[0].Dir)
	read := func(name string) string {
		body, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(body)
	}
	ca, node := read("ca.pem"), read("meta/node.pem")
	_, err = issueCerts(dir, []string{"10.0.0.1"}, certs.Valid)
	require.NoError(t, err)
	assert.Equal(t, ca, read("ca.pem"))
	assert.NotEqual(t, node, read("meta/node.pem"))
}
