"""Tests of the Helm chart: `make chart`. They need Helm, and no Kubernetes."""
