module mezzavoce.org/gofloor

go 1.21

require golang.org/x/crypto v0.0.0-20200602180216-279210d13fed

require golang.org/x/sys v0.0.0-20190412213103-97732733099d // indirect
