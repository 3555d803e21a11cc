\d
\dt
\d customer
\d+ customer
\d orders
\d+ orders
\d legacy
\d open_orders
\d ticket
\d orders_by_customer
\di
\dv
\ds
\dn
\dt public.*
\dt o*
\d missing
