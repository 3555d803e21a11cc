\dt+
\d customer
\d orders
\d stock.item
\d+ big
\ds+
\d orders_id_seq
\d customer_id_seq
\d stock.item_pkey
\dT+ stock.*
\dp
\dn+
\dC int4
\dd
\drds
\ddp
\dx
\dy
\dRp
\dRs
\des
\dew
\det
\deu
\dD
\dL
\do =
\dO C
\da sum
\dA
\dAc btree int4
\dF
\dm
\dE
\dP
\db
\dX
\dl
\sv open_orders
\dconfig work_mem
\d pg_am
