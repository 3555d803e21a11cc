"""Django 5 against a server: the migrations of its own applications, an application's migration there and back, the ORM, fixtures.

Its one argument is the URL of an empty database.
"""

import datetime as dt
import decimal
import io
import os
import sys
import tempfile
import urllib.parse
import uuid

import django
from django.conf import settings

url = urllib.parse.urlparse(sys.argv[1])
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "__main__"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path[1:],
            "USER": url.username,
            "PASSWORD": url.password,
            "HOST": url.hostname,
            "PORT": url.port,
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    MIGRATION_MODULES={"shop": None},
    USE_TZ=True,
    SECRET_KEY="none",
)

from django.apps import AppConfig


class Shop(AppConfig):
    name = "__main__"
    label = "shop"
    path = os.path.dirname(os.path.abspath(__file__))

    def import_models(self):
        """They are below, in this file."""
        self.models = self.apps.all_models["shop"]
        self.models_module = sys.modules["__main__"]


settings.INSTALLED_APPS[-1] = "__main__.Shop"
django.setup()

from django.contrib.auth.models import Permission, User
from django.contrib.postgres.fields import ArrayField
from django.core.management import call_command
from django.db import IntegrityError, connection, migrations, models, transaction
from django.db.migrations.state import ModelState, ProjectState
from django.db.models import Avg, Case, Count, Exists, F, OuterRef, Q, Subquery, Sum, Value, When, Window
from django.db.models.functions import Lower, RowNumber, TruncMonth


class Category(models.Model):
    name = models.CharField(max_length=50, unique=True)
    note = models.TextField(blank=True, default="")
    parent = models.ForeignKey("self", null=True, on_delete=models.SET_NULL)

    class Meta:
        app_label = "shop"


class Product(models.Model):
    name = models.CharField(max_length=50, db_comment="as on the label")
    category = models.ForeignKey(Category, on_delete=models.CASCADE, related_name="products", db_index=False)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    data = models.JSONField(default=dict)
    tags = ArrayField(models.TextField(), default=list)
    weight = models.FloatField(null=True)
    active = models.BooleanField(default=True)
    added = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "shop"
        constraints = [models.CheckConstraint(condition=Q(price__gte=0), name="price_not_negative")]
        indexes = [models.Index(fields=["category", "-price"], name="by_price")]
        unique_together = [("name", "category")]


class Order(models.Model):
    ref = models.UUIDField(unique=True)
    placed = models.DateTimeField()
    products = models.ManyToManyField(Product)

    class Meta:
        app_label = "shop"


def makes_its_tables():
    call_command("migrate", run_syncdb=True, verbosity=0)
    assert "shop_product" in connection.introspection.table_names()
    assert Permission.objects.count() > 0


def migrates_there_and_back():
    before = ProjectState()
    for model in (Category, Product, Order):
        before.add_model(ModelState.from_model(model))
    operations = [
        migrations.AddField("product", "extra", models.CharField(max_length=20, default="e")),
        migrations.AlterField("product", "extra", models.CharField(max_length=40, null=True)),
        migrations.RenameField("product", "extra", "more"),
        migrations.AddIndex("product", models.Index(fields=["more"], name="by_more")),
        migrations.RenameIndex("product", new_name="by_what_more", old_name="by_more"),
        migrations.AlterField("product", "weight", models.DecimalField(max_digits=8, decimal_places=3, null=True)),
        migrations.AlterUniqueTogether("product", set()),
        migrations.AlterModelTable("order", "orders"),
        migrations.AddConstraint("product", models.UniqueConstraint(fields=["more"], name="one_more")),
        migrations.RunSQL("UPDATE shop_product SET more = name", migrations.RunSQL.noop),
    ]
    states = [before]
    for operation in operations:
        with connection.schema_editor() as editor:
            after = states[-1].clone()
            operation.state_forwards("shop", after)
            operation.database_forwards("shop", editor, states[-1], after)
        states.append(after)
    for number, operation in reversed(list(enumerate(operations))):
        with connection.schema_editor() as editor:
            operation.database_backwards("shop", editor, states[number + 1], states[number])


def makes_objects():
    category = Category.objects.create(name="Tools")
    products = Product.objects.bulk_create(
        Product(
            name=f"P{i}",
            category=category,
            price=decimal.Decimal(i),
            data={"n": i, "tags": ["a", "b"]},
            tags=["x", str(i)],
            weight=i / 2,
            active=i % 2 == 0,
        )
        for i in range(10)
    )
    assert all(product.pk for product in products)
    order = Order.objects.create(ref=uuid.uuid4(), placed=dt.datetime(2024, 1, 2, 3, 4, tzinfo=dt.timezone.utc))
    order.products.add(*products[:5])
    order.products.remove(products[0])
    order.products.set(products[2:4])
    assert order.products.count() == 2


def finds_them():
    for found, condition in [
        (1, Q(data__n=3)),
        (10, Q(data__tags__contains=["a"])),
        (10, Q(data__has_key="n")),
        (2, Q(tags__overlap=["3", "4"])),
        (1, Q(name__icontains="p1")),
        (5, Q(name__iregex="^p[0-4]$")),
        (5, ~Q(active=True)),
        (1, Q(price__range=(3, 3)) & Q(category__name__startswith="To")),
    ]:
        assert Product.objects.filter(condition).count() == found, condition
    tools = Category.objects.annotate(n=Count("products"), sum=Sum("products__price"), mean=Avg("products__weight")).get()
    assert (tools.n, tools.sum, tools.mean) == (10, 45, 2.25)
    months = Order.objects.annotate(month=TruncMonth("placed")).values("month").annotate(n=Count("id"))
    assert [month["n"] for month in months] == [1]
    numbered = Product.objects.annotate(at=Window(RowNumber(), partition_by="active", order_by=F("price").desc()))
    assert sorted(numbered.values_list("at", flat=True)) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    kind = Case(When(price__gt=5, then=Value("dear")), default=Value("cheap"))
    kinds = Product.objects.annotate(kind=kind).values("kind").annotate(n=Count("id")).order_by("kind")
    assert [row["n"] for row in kinds] == [6, 4]
    dearest = Product.objects.filter(category=OuterRef("pk")).order_by("-price").values("name")[:1]
    assert Category.objects.annotate(dearest=Subquery(dearest)).get().dearest == "P9"
    assert Category.objects.filter(Exists(Product.objects.filter(category=OuterRef("pk"), price__gt=8))).count() == 1
    assert Product.objects.aggregate(sum=Sum("price", filter=Q(active=True)))["sum"] == 20
    assert Product.objects.order_by(Lower("name")).values_list("name", flat=True)[1] == "P1"
    assert len(list(Product.objects.all().iterator(chunk_size=3))) == 10
    assert len(Order.objects.prefetch_related("products__category").get().products.all()) == 2
    assert Product.objects.filter(name="P1").union(Product.objects.filter(name="P2")).count() == 2
    Product.objects.filter(price__gt=1).explain()


def changes_them():
    assert Product.objects.filter(active=True).update(price=F("price") + 1) == 5
    with transaction.atomic():
        product = Product.objects.select_for_update().get(name="P3")
        product.price = 99
        product.save()
        try:
            with transaction.atomic():
                Category.objects.create(id=product.category_id, name="again")
        except IntegrityError:
            pass
        else:
            raise AssertionError("two categories of one id")
        locked = Product.objects.select_for_update(skip_locked=True, of=("self",)).select_related("category")
        assert len(locked) == 10
    assert not Category.objects.update_or_create(name="Tools", defaults={"note": "n"})[1]
    new, is_new = Category.objects.get_or_create(name="New")
    assert is_new
    again = Category(id=new.id, name="New", note="z")
    Category.objects.bulk_create([again], update_conflicts=True, unique_fields=["id"], update_fields=["note"])
    Category.objects.bulk_create([again], ignore_conflicts=True)
    assert Category.objects.get(name="New").note == "z"
    Product.objects.bulk_update([Product.objects.get(name="P1")], ["price"])
    assert Product.objects.filter(name="P9").delete()[0] == 1
    # Foreign keys are deferred: a reference may come before what it refers to.
    with transaction.atomic():
        early = Product.objects.create(name="early", category_id=500, price=1)
        Category.objects.create(id=500, name="late")
    try:
        with transaction.atomic():
            Product.objects.create(name="lost", category_id=501, price=1)
    except IntegrityError:
        pass
    else:
        raise AssertionError("a product of no category")
    Category.objects.get(id=500).delete()
    assert not Product.objects.filter(id=early.id).exists()


def knows_users():
    user = User.objects.create_superuser("root", "root@example.com", "secret")
    user.user_permissions.add(Permission.objects.first())
    assert user.check_password("secret") and user.has_perm("shop.add_product")


def dumps_empties_and_loads():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as fixture:
        call_command("dumpdata", "shop", stdout=fixture)
        fixture.flush()
        call_command("flush", interactive=False, verbosity=0)
        assert Product.objects.count() == 0
        call_command("loaddata", fixture.name, verbosity=0)
    assert Product.objects.count() == 9
    resets = io.StringIO()
    call_command("sqlsequencereset", "shop", stdout=resets, no_color=True)
    with connection.cursor() as cursor:
        cursor.execute(resets.getvalue())
    Category.objects.create(name="after")


makes_its_tables()
migrates_there_and_back()
makes_objects()
finds_them()
changes_them()
knows_users()
dumps_empties_and_loads()
print("checks passed")
